// needle_grid: a map for each method, the text's length downwards and the needle's depth across.
#include "app/panels/results_panel.h"
#include "app/state/open_results.h"
#include "app/state/questions/results/needle_grid.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::ScoreCell;
using state::NeedleGridQuestion;
using Grids = state::Result<NeedleGridQuestion>;
using Grid = NeedleGridQuestion::Grid;

constexpr const char* kView = "needle_grid";
constexpr float kNames = 6.5F, kLeastCell = 3.8F, kLeastRow = 1.6F;  // em

class NeedleGridPanel final : public ResultsPanel {
 protected:
  void draw_results(DrawContext& context) override {
    const Grids result =
        shown_.ask(context.workspace, state::needle_grid_question(context.workspace));
    results_head_ui(context, "Needle grid",
                    "mean score by the text's length in tokens and the needle's depth");
    if (!ready_ui(context, result, "Laying out the needles")) return;
    if (result->grids.empty()) {
      widgets::empty_ui(context.palette,
                        "No sample has a length and a depth: run the task kvloupe_niah.");
      return;
    }
    headline_ui(context, result->finding);
    widgets::color_scale_ui(context.palette, widgets::score_color, "0", "1", "mean score",
                            widgets::em(8));
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float samples = samples_height(context, kView, result->lengths.size(), room.y);
    maps_ui(context, result, {room.x, room.y - samples});
    samples_ui(context, kView);
  }

 private:
  struct Arrangement {
    std::size_t across = 1, down = 1;
    bool dense_alone = false;  // it has the first row to itself
  };
  // At most `fit` side by side, in rows that are filled alike; the budgets of one method stay in a row.
  static Arrangement arrangement_of(const std::vector<Grid>& grids, std::size_t fit) {
    const auto id_of = [](const Grid& grid) {
      return grid.method.substr(0, grid.method.find(':'));
    };
    const auto budgets = static_cast<std::size_t>(std::ranges::count_if(
        grids, [&](const Grid& grid) { return id_of(grid) == id_of(grids.back()); }));
    const bool pairs = budgets > 1 && fit >= budgets;
    const bool dense_alone = grids.size() > 1 && grids[0].method == state::kDense && fit > 1 &&
                             (pairs || grids.size() % fit == 1);
    const std::size_t count = grids.size() - (dense_alone ? 1 : 0);
    if (pairs) fit -= fit % budgets;
    std::size_t down = (count + fit - 1) / fit;
    std::size_t across = (count + down - 1) / down;
    if (pairs) across += (budgets - across % budgets) % budgets;
    down = (count + across - 1) / across;
    return {across, down + (dense_alone ? 1 : 0), dense_alone};
  }

  // As many side by side as are wide enough to be read.
  static void maps_ui(DrawContext& context, const Grids& result, ImVec2 size) {
    const std::size_t count = result->grids.size();
    const float least_width =
        widgets::em(kNames + kLeastCell * static_cast<float>(result->depths.size()));
    const auto fit = static_cast<std::size_t>(std::max(1.0F, size.x / least_width));
    const auto [across, down, dense_alone] = arrangement_of(result->grids, fit);
    const float name = ImGui::GetTextLineHeightWithSpacing();
    const auto lengths = static_cast<float>(result->lengths.size());
    const float least = name * 2 + lengths * widgets::em(kLeastRow);
    const float gap = widgets::em(1);
    ImVec2 inside = size;  // beside the scroll bar where there is one
    if (!context.figure && (least + gap / 2) * static_cast<float>(down) > size.y)
      inside.x -= ImGui::GetStyle().ScrollbarSize;
    const float width =
        (inside.x - gap * static_cast<float>(across - 1)) / static_cast<float>(across);
    const float most = name * 2 + lengths * widgets::em(6);
    const float height = std::clamp(size.y / static_cast<float>(down) - gap / 2, least, most);
    if (!context.figure) ImGui::BeginChild("maps", size);
    const ImVec2 at = ImGui::GetCursorPos();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t slot = dense_alone && i > 0 ? i + across - 1 : i;
      ImGui::SetCursorPos({at.x + static_cast<float>(slot % across) * (width + gap),
                           at.y + static_cast<float>(slot / across) * (height + gap / 2)});
      ImGui::PushID(static_cast<int>(i));
      map_ui(context, result, result->grids[i], {width, height});
      ImGui::PopID();
    }
    if (!context.figure) ImGui::EndChild();
  }

  static void map_ui(DrawContext& context, const Grids& result, const Grid& grid, ImVec2 size) {
    ImGui::BeginGroup();
    const std::string name = state::name_of(result.question, *result, grid);
    {
      const widgets::FontScope strong(widgets::Type::Strong);
      widgets::text_colored(context.palette.text, widgets::elided(name, size.x));
    }
    std::vector<std::string> lengths;
    ScoreMap map;
    for (const std::int64_t length : result->lengths) lengths.push_back(state::length_text(length));
    for (const double depth : result->depths) map.columns.push_back(format_shortest(depth) + " %");
    map.names_columns = "depth";
    map.id = "map";
    map.view = kView;
    map.rows = &lengths;
    map.stale = result.stale;
    for (std::size_t r = 0; r < lengths.size(); ++r)
      for (std::size_t c = 0; c < map.columns.size(); ++c)
        map.cells.push_back(cell_of(result, grid, name, r, c));
    map.explain = [&](const ScoreMap::Cell& cell) {
      return explained(result, grid, name,
                       static_cast<std::size_t>(cell.scores - grid.scores.cells.data()));
    };
    score_map_ui(context, map, {size.x, size.y - ImGui::GetTextLineHeightWithSpacing()});
    ImGui::EndGroup();
  }

  static ScoreMap::Cell cell_of(const Grids& result, const Grid& grid, const std::string& name,
                                std::size_t r, std::size_t c) {
    const ScoreCell& scores = grid.scores.at(r, c);
    ScoreMap::Cell cell;
    cell.scores = &scores;
    cell.tone = scores.mean;
    if (scores.scored > 0) {
      cell.number = state::score_text(scores.mean);
      cell.beside = fmt::format("n {}", format_count(scores.scored));
    }
    if (scores.samples.empty()) cell.beside = "not run";
    cell.listed_as = name + ", " + where(result, r, c);
    return cell;
  }

  static std::string where(const Grids& result, std::size_t r, std::size_t c) {
    return fmt::format("{}, depth {} %", state::length_text(result->lengths[r]),
                       format_shortest(result->depths[c]));
  }

  static std::string explained(const Grids& result, const Grid& grid, const std::string& name,
                               std::size_t index) {
    const ScoreCell& scores = grid.scores.cells[index];
    const std::size_t columns = result->depths.size();
    std::string text = fmt::format("{}\n{}\nmean score {:.3f} over {}", name,
                                   where(result, index / columns, index % columns), scores.mean,
                                   state::words_of_samples(scores.scored));
    if (!std::isnan(scores.low))
      text += fmt::format("\n95 %: {:.2f} to {:.2f}", scores.low, scores.high);
    if (scores.paired > 0 && scores.paired < scores.scored)
      text += fmt::format("\nof {} of them {:.3f}", scores.paired, scores.paired_mean);
    if (scores.paired > 0)
      text += fmt::format("\nwhere {} has {:.3f}",
                          result.question.results->label_of(result.question.against),
                          scores.their_mean);
    return text;
  }

  state::LastAnswer<NeedleGridQuestion> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_needle_grid_panel() { return std::make_unique<NeedleGridPanel>(); }

}  // namespace kvloupe::panels
