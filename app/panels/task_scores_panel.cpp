// task_scores: a method a row, a task, length, depth or budget a column, the mean score in each cell.
#include "app/panels/results_panel.h"
#include "app/state/open_results.h"
#include "app/state/questions/results/published.h"
#include "app/state/questions/results/task_scores.h"
#include "app/widgets/table.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::ScoreCell;
using state::TaskScoresQuestion;
using Scores = state::Result<TaskScoresQuestion>;

constexpr const char* kView = "task_scores";

class TaskScoresPanel final : public ResultsPanel {
 protected:
  void draw_results(DrawContext& context) override {
    const TaskScoresQuestion question = state::task_scores_question(context.workspace);
    const Scores result = shown_.ask(context.workspace, question);
    option_ui(context, kView, "across", "a column for each", widgets::em(7));
    option_beside_ui(context, kView, "value", "colours", widgets::em(10));
    option_beside_ui(context, kView, "published", "below it", widgets::em(10));
    results_head_ui(context, "Task scores", measured(context, question));
    if (!scores_ready_ui(context, result)) return;
    headline_ui(context, result->finding);
    scale_ui(context, question);
    const ScoreMap map = map_of(context, result);
    if (context.workspace.results.sight.lists_finding && !context.figure && !result.stale)
      list_finding(context, result, map);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const auto published = published_.ask(context.workspace, published_question(context.workspace));
    const bool lays_under = !published.question.paper.empty();
    const float samples = samples_height(context, kView, result->scores.rows.size(), room.y);
    const float under = lays_under ? (room.y - samples) * 0.5F : 0;
    const float height =
        score_map_height(context, result->scores.rows.size(), room.y - samples - under);
    const bool by_method = question.across != "budget";
    score_map_ui(context, map, {room.x, height}, by_method ? &result->scores.rows : nullptr);
    ImGui::Dummy({0, widgets::grid(0.5F)});
    if (lays_under) published_ui(context, published, under - widgets::grid(1));
    samples_ui(context, kView);
  }

 private:
  static bool scores_ready_ui(DrawContext& context, const Scores& result) {
    if (!ready_ui(context, result, "Averaging the samples")) return false;
    if (!result->scores.cells.empty()) return true;
    widgets::empty_ui(context.palette, fmt::format("No sample has a {}: choose another column.",
                                                   result.question.across));
    return false;
  }

  // As printed; what is doubtful has the colour of a warning.
  static void published_ui(DrawContext& context,
                           const state::Result<state::PublishedQuestion>& published, float height) {
    heading_ui(context, "Published",
               published ? printable(published->words) : std::string("reading the paper's scores"));
    if (published.state == state::ResultState::Error) return failure_ui(context, published.error);
    if (!published || published->doubts.empty()) return;
    const std::size_t all = published->table.rows.size();
    table::Table cut;  // a figure has nothing to scroll with
    if (context.figure) {
      const float line = ImGui::GetTextLineHeightWithSpacing() + widgets::em(0.2F);
      cut = published->table;
      cut.rows.resize(std::min(all, static_cast<std::size_t>(std::max(1.0F, height / line - 5))));
    }
    const table::Table& table = context.figure ? cut : published->table;
    const std::size_t columns = table.columns.size();
    widgets::TableLook look{{1, 2.6F}};
    look.weights.resize(columns, 1.3F);
    look.flags |= ImGuiTableFlags_RowBg;
    if (!context.figure) {
      look.flags |= ImGuiTableFlags_ScrollY;
      look.size = {0, std::max(height - ImGui::GetTextLineHeightWithSpacing(), widgets::em(6))};
    }
    look.draw = [&](std::size_t row, std::size_t column) {
      const std::string& doubt = published->doubts[row * columns + column];
      if (doubt.empty()) return false;
      widgets::text_colored(
          context.palette.warning,
          printable(table::words_of(table.rows[row][column], table.columns[column])));
      if (!context.figure && ImGui::IsItemHovered())
        widgets::tooltip({{"This number may be wrong:", context.palette.warning}, {doubt}});
      return true;
    };
    look.pointer = &context.workspace.pointer;
    widgets::table_ui(context.palette, "##published", table, look);
    if (context.figure) doubts_ui(context, *published, table.rows.size() * columns);
    if (table.rows.size() < all)
      widgets::text_colored(
          context.palette.muted,
          fmt::format("and {} more",
                      format_count(static_cast<std::int64_t>(all - table.rows.size()))));
  }

  // Of the first cells, each reason once: a figure has no mouse to ask with.
  static void doubts_ui(DrawContext& context, const state::PublishedQuestion::Answer& published,
                        std::size_t cells) {
    std::vector<std::string> reasons;
    for (std::size_t i = 0; i < std::min(cells, published.doubts.size()); ++i)
      if (!published.doubts[i].empty() &&
          std::ranges::find(reasons, published.doubts[i]) == reasons.end())
        reasons.push_back(published.doubts[i]);
    if (reasons.empty()) return;
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_colored(
        context.palette.warning,
        widgets::elided("May be wrong: " + printable(fmt::format("{}", fmt::join(reasons, "; "))),
                        ImGui::GetContentRegionAvail().x));
  }

  // What the two lines of a cell say.
  static std::string measured(DrawContext& context, const TaskScoresQuestion& question) {
    const std::string& value = context.workspace.option(kView, "value");
    const std::string other =
        question.results ? question.results->label_of(question.against) : std::string();
    if (value == "difference")
      return fmt::format(
          "mean score less that of {}, below it the samples that are better and worse", other);
    if (value == "relative")
      return fmt::format("mean score by that of {}, below it both scores", other);
    return "mean score, below it the 95 % interval (Wilson)";
  }

  static void scale_ui(DrawContext& context, const TaskScoresQuestion& question) {
    const std::string& value = context.workspace.option(kView, "value");
    const std::string other = question.results->label_of(question.against);
    if (value == "difference")
      widgets::color_scale_ui(context.palette, widgets::diverging_color, "-1", "+1",
                              "score less that of " + other, widgets::em(8));
    else
      widgets::color_scale_ui(context.palette, widgets::score_color, "0", "1",
                              value == "relative" ? "score by that of " + other : "mean score",
                              widgets::em(8));
  }

  static std::string explained(const Scores& result, std::size_t row, std::size_t column) {
    const ScoreCell& cell = result->scores.at(row, column);
    std::string text =
        fmt::format("{}, {}\nmean score {:.3f} over {}", result->row_labels[row],
                    result->column_labels[column], cell.mean, state::words_of_samples(cell.scored));
    if (!std::isnan(cell.low)) text += fmt::format("\n95 %: {:.2f} to {:.2f}", cell.low, cell.high);
    if (cell.refused > 0) text += fmt::format("\n{} not answered", cell.refused);
    if (!std::isnan(cell.kept)) text += fmt::format("\n{:.1f} keys kept per row", cell.kept);
    if (cell.paired == 0) return text;
    const std::string p = state::p_text(cell.p);
    return text + fmt::format("\n{} of the score of {}, difference {}\nbetter on {}, worse on {}{}",
                              state::share_text(cell.relative),
                              result.question.results->label_of(result.question.against),
                              state::difference_text(cell.difference), cell.better, cell.worse,
                              p.empty() ? "" : ", " + p + " (sign test)");
  }

  static ScoreMap map_of(DrawContext& context, const Scores& result) {
    const std::string& value = context.workspace.option(kView, "value");
    const TaskScoresQuestion::Answer& answer = *result;
    ScoreMap map;
    map.id = map.view = kView;
    map.rows = &answer.row_labels;
    map.diverges = value == "difference";
    map.stale = result.stale;
    const auto strong =
        std::find(answer.scores.rows.begin(), answer.scores.rows.end(), result.question.against);
    if (strong != answer.scores.rows.end())
      map.strong_row = static_cast<int>(strong - answer.scores.rows.begin());
    const std::size_t columns = answer.scores.columns.size();
    const std::optional<std::size_t> apart = column_apart(result);
    for (std::size_t c = 0; c < columns; ++c)
      if (c != apart) map.columns.push_back(answer.column_labels[c]);
    for (std::size_t r = 0; r < answer.scores.rows.size(); ++r) {
      const bool fills_row = apart && !answer.scores.at(r, *apart).samples.empty();
      for (std::size_t c = 0; c < columns; ++c)
        if (c != apart) map.cells.push_back(cell_of(result, value, r, fills_row ? *apart : c));
      if (fills_row) {
        ScoreMap::Cell& cell = map.cells[map.cells.size() - map.columns.size()];
        cell.fills_row = true;
        cell.beside =
            answer.column_labels[*apart] + (cell.beside.empty() ? "" : ": ") + cell.beside;
      }
    }
    map.explain = [&result, columns](const ScoreMap::Cell& cell) {
      const auto index = static_cast<std::size_t>(cell.scores - result->scores.cells.data());
      return explained(result, index / columns, index % columns);
    };
    return map;
  }

  // The column of dense among budgets, where it is empty but for rows that have nothing else: such a row has one
  // cell in place of it.
  static std::optional<std::size_t> column_apart(const Scores& result) {
    const analysis::ScoreTable& scores = result->scores;
    const auto none = std::ranges::find(scores.columns, state::kAllKeys);
    if (result.question.across != "budget" || none == scores.columns.end() ||
        scores.columns.size() == 1)
      return std::nullopt;
    const auto apart = static_cast<std::size_t>(none - scores.columns.begin());
    for (std::size_t r = 0; r < scores.rows.size(); ++r)
      for (std::size_t c = 0; c < scores.columns.size(); ++c)
        if (c != apart && !scores.at(r, c).samples.empty() && !scores.at(r, apart).samples.empty())
          return std::nullopt;
    return apart;
  }

  // Until something is clicked, the samples of the cell that the finding names.
  void list_finding(DrawContext& context, const Scores& result, const ScoreMap& map) {
    state::ResultsSight& sight = context.workspace.results.sight;
    if (result->worst < 0) return sight.listed.clear();
    const ScoreCell* worst = &result->scores.cells[static_cast<std::size_t>(result->worst)];
    const auto cell = std::ranges::find(map.cells, worst, &ScoreMap::Cell::scores);
    if (cell == map.cells.end()) return;
    const bool is_listed = sight.listed_in == kView && sight.listed == cell->listed_as;
    if (std::exchange(listed_for_, result.key) == result.key && is_listed) return;
    list_samples(context, kView, *cell);
    sight.lists_finding = true;
  }

  static ScoreMap::Cell cell_of(const Scores& result, const std::string& value, std::size_t r,
                                std::size_t c) {
    const ScoreCell& scores = result->scores.at(r, c);
    ScoreMap::Cell cell;
    cell.scores = &scores;
    cell.tone = std::isnan(scores.low) ? ScoreCell::kUnknown : scores.mean;
    cell.number = scores.samples.empty() ? "" : state::score_text(scores.mean);
    if (!std::isnan(scores.low))
      cell.beside = fmt::format("{:.2f} to {:.2f}, n {}", scores.low, scores.high,
                                format_count(scores.scored));
    else if (!scores.samples.empty())
      cell.beside = fmt::format("n {}", format_count(scores.scored));
    if (value == "difference") {
      cell.tone = (scores.difference + 1) / 2;
      cell.number = state::difference_text(scores.difference);
      cell.beside = scores.paired == 0 ? ""
                                       : fmt::format("{} better, {} worse of {}", scores.better,
                                                     scores.worse, scores.paired);
    } else if (value == "relative") {
      cell.tone =
          std::isnan(scores.relative) ? ScoreCell::kUnknown : std::min(1.0, scores.relative);
      cell.number = state::score_text(scores.relative);
      cell.beside = scores.paired == 0
                        ? ""
                        : fmt::format("{} against {}", state::score_text(scores.paired_mean),
                                      state::score_text(scores.their_mean));
    }
    if (scores.samples.empty()) {
      cell.number = "";
      cell.beside = never_runs(result, r, c) ? "" : "not run";
    }
    cell.listed_as = fmt::format("{}, {}", result->row_labels[r], result->column_labels[c]);
    return cell;
  }

  // Dense has no budget, and the others do not stand under "all keys". Who has no fixed budget has none of the others.
  static bool never_runs(const Scores& result, std::size_t r, std::size_t c) {
    if (result.question.across != "budget") return false;
    const analysis::ScoreTable& scores = result->scores;
    const auto own = std::ranges::find(scores.columns, state::kOwnBudget);
    const bool has_own =
        own != scores.columns.end() &&
        !scores.at(r, static_cast<std::size_t>(own - scores.columns.begin())).samples.empty();
    return scores.rows[r] == state::kDense || scores.columns[c] == state::kAllKeys ||
           has_own != (scores.columns[c] == state::kOwnBudget);
  }

  state::LastAnswer<TaskScoresQuestion> shown_;
  std::string listed_for_;  // the answer whose finding is listed
  state::LastAnswer<state::PublishedQuestion> published_;
};

}  // namespace

std::unique_ptr<Panel> make_task_scores_panel() { return std::make_unique<TaskScoresPanel>(); }

}  // namespace kvloupe::panels
