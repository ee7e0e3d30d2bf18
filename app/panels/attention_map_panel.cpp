// attention_map: the attention of one query head. Above the whole map, reduced by maximum; below
// the rows of the current chunk, exact, with what the method kept and missed between the two.
#include "app/panels/map_plot.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::KeyVerdict;
using analysis::Matrix;

// How a probability becomes a colour.
struct ColorRange {
  bool logarithmic = true;
  float low = 1e-4F;  // fades into the background
  float high = 0.25F;

  double position(double p) const {
    if (!logarithmic) return (p - low) / (high - low);
    return p <= 0 ? 0 : std::log(p / low) / std::log(high / low);
  }
};

// Maximum over the source cells that a pixel covers: one bright cell is never lost.
void fill_matrix(const widgets::Palette& palette, const ColorRange& range, const Matrix& matrix,
                 const widgets::MapWindow& window, double cell_size, double row_offset,
                 std::vector<ImU32>& pixels) {
  std::vector<std::pair<std::int64_t, std::int64_t>> columns;
  for (int x = 0; x < window.width; ++x)
    columns.push_back(widgets::MapTexture::cells_of_pixel(
        window.col_begin / cell_size, window.col_end / cell_size, window.width, x, matrix.cols));
  constexpr int kTones = 512;
  std::vector<ImU32> tones(kTones + 1);
  for (int i = 0; i <= kTones; ++i)
    tones[static_cast<std::size_t>(i)] = widgets::sequential_color(palette, double(i) / kTones);
  std::pair<std::int64_t, std::int64_t> previous{-1, -1};
  for (int y = 0; y < window.height; ++y) {
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    const auto rows = widgets::MapTexture::cells_of_pixel(
        (window.row_begin - row_offset) / cell_size, (window.row_end - row_offset) / cell_size,
        window.height, y, matrix.rows);
    if (rows == previous) {
      std::copy(line - window.width, line, line);
      continue;
    }
    previous = rows;
    for (int x = 0; x < window.width; ++x) {
      float best = -1;
      for (std::int64_t r = rows.first; r < rows.second; ++r)
        for (std::int64_t c = columns[x].first; c < columns[x].second; ++c)
          best = std::max(best, matrix.at(r, c));  // a NaN never wins
      line[x] = best < 0 ? palette.panel
                         : tones[static_cast<std::size_t>(
                               std::clamp(range.position(best), 0.0, 1.0) * kTones)];
    }
  }
}

class AttentionMapPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    widgets::figure_head_ui(context.palette, context.figure, "Attention map", "",
                            place_caption(workspace), head_chips(context));
    const auto rows = workspace.attention_rows();
    const auto map = workspace.attention_map();
    if (!ready_ui(context, rows, "Recomputing the chunk's attention from Q and K")) return;
    method_note_ui(context, workspace.selection().shown);
    scale_ui(context);
    ImGui::Dummy({0, widgets::em(0.9F)});
    const double num_tokens = workspace.info().num_tokens;
    if (shown_tokens_ != num_tokens) {
      shown_tokens_ = num_tokens;
      x_range_ = {0, num_tokens};
      y_range_ = {0, num_tokens};
    }
    const float room = ImGui::GetContentRegionAvail().y;
    const float rug = widgets::em(2.6F);
    const float strip = std::max(widgets::em(6), room * 0.27F);
    if (!ImPlot::BeginAlignedPlots("##attention", true)) return;
    whole_map_ui(context, map, {-1, std::max(widgets::em(6), room - strip - rug)});
    rug_ui(context, {-1, rug});
    rows_ui(context, *rows, {-1, strip});
    ImPlot::EndAlignedPlots();
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"query", "key", "attention"}, {}};
    const auto rows = workspace.attention_rows();
    if (!rows) return table;
    const std::int32_t begin = workspace.chunk().begin;
    for (std::int64_t r = 0; r < rows->rows; ++r)
      for (std::int64_t c = 0; c <= begin + r; ++c)
        table.rows.push_back({cell(begin + r), cell(c), cell(double{rows->at(r, c)})});
    return table;
  }

  Array array(state::Workspace& workspace) override {
    const auto rows = workspace.attention_rows();
    return rows ? array_of("<f4", {rows->rows, rows->cols}, rows->values) : Array{};
  }

  std::string problem(state::Workspace& workspace) override {
    const std::string rows = problem_of(workspace.attention_rows());
    const std::string map = problem_of(workspace.attention_map());
    workspace.selected_vs_true(workspace.selection().shown);
    return rows.empty() ? map : rows;
  }

 private:
  std::vector<widgets::Chip> head_chips(DrawContext& context) const {
    auto chips = trace_chips(context);
    const auto kept = method_chips(context, context.workspace.selection().shown);
    chips.insert(chips.end(), kept.begin(), kept.end());
    // Precision stands once.
    std::erase_if(
        chips, [](const widgets::Chip& chip) { return chip.text == "stored f16, computed fp32"; });
    return chips;
  }

  void scale_ui(DrawContext& context) {
    widgets::color_scale_ui(
        context.palette, widgets::sequential_color, fmt::format("{:g}", range_.low),
        fmt::format("{:g}{}", range_.high, range_.high < 1 ? " and more" : ""),
        range_.logarithmic ? "attention probability (log)" : "attention probability",
        widgets::em(9));
    ImGui::SameLine(0, widgets::em(1.5F));
    widgets::legend_ui(context.palette, {{"hit: kept and true", context.palette.hit},
                                         {"miss: true, not kept", context.palette.miss},
                                         {"waste: kept, not true", context.palette.waste},
                                         {"current chunk", context.palette.current}});
    if (context.figure) return;
    ImGui::SameLine(0, widgets::em(1.5F));
    ImGui::Checkbox("log", &range_.logarithmic);
    ImGui::SameLine();
    ImGui::SetNextItemWidth(widgets::em(9));
    ImGui::DragFloatRange2("##range", &range_.low, &range_.high, 0.001F, 1e-6F, 1.0F, "%.5f",
                           "%.3f", ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_AlwaysClamp);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Range of the colour scale");
    range_.high = std::max(range_.high, range_.low * 1.5F);
  }

  std::string look_key(DrawContext& context) const {
    return fmt::format("{}|{}|{}|{}", range_.logarithmic, range_.low, range_.high,
                       static_cast<int>(context.palette.kind));
  }

  void whole_map_ui(DrawContext& context, const state::Result<analysis::AttentionMap>& map,
                    ImVec2 size) {
    if (!map) {
      ImGui::BeginChild("whole map", size);
      ready_ui(context, map, "Reducing the whole map");
      ImGui::EndChild();
      return;
    }
    MapPlotSpec spec;
    spec.id = "##whole map";
    spec.y_label = "query";
    spec.rows = spec.cols = context.workspace.info().num_tokens;
    spec.size = size;
    spec.show_x_ticks = false;
    spec.content_key = map.key + look_key(context);
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_matrix(context.palette, range_, map->max, window, static_cast<double>(map->step), 0,
                  pixels);
    };
    spec.x_range = &x_range_;
    spec.y_range = &y_range_;
    const auto hit = map_plot_ui(context, spec, map_texture_, [&] {
      chunk_lines(context);
      span_marks_ui(context, true);
    });
    if (hit)
      point_at(context, static_cast<std::int32_t>(hit->row), static_cast<std::int32_t>(hit->col),
               hit->clicked, &*map);
  }

  static void chunk_lines(DrawContext& context) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    ImPlot::PushPlotClipRect();
    const auto& info = context.workspace.info();
    const float spacing =
        ImPlot::GetPlotSize().y * static_cast<float>(info.chunks.front().length / limits.Y.Size());
    if (spacing > 6)
      for (const trace::ChunkInfo& chunk : info.chunks)
        draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, chunk.begin),
                      ImPlot::PlotToPixels(limits.X.Max, chunk.begin),
                      widgets::with_alpha(context.palette.faint, 0.22F));
    const trace::ChunkInfo& here = context.workspace.chunk();
    draw->AddRect(ImPlot::PlotToPixels(limits.X.Min, here.begin),
                  ImPlot::PlotToPixels(limits.X.Max, here.end()), context.palette.accent, 0, 0,
                  std::max(1.0F, widgets::em(0.1F)));
    ImPlot::PopPlotClipRect();
  }

  // Hits, misses and wastes of the shown method for the current chunk, one band over the keys.
  void rug_ui(DrawContext& context, ImVec2 size) {
    const auto verdicts = context.workspace.selected_vs_true(context.workspace.selection().shown);
    MapPlotSpec spec;
    spec.id = "##rug";
    spec.rows = 1;
    spec.y_label = "kept";
    spec.cols = context.workspace.info().num_tokens;
    spec.size = size;
    spec.show_x_ticks = false;
    spec.content_key = verdicts.key + std::to_string(static_cast<int>(context.palette.kind));
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      std::vector<ImU32> line(static_cast<std::size_t>(window.width), context.palette.panel);
      const trace::ChunkInfo& chunk = context.workspace.chunk();
      for (int x = 0; x < window.width && verdicts; ++x) {
        const auto keys = widgets::MapTexture::cells_of_pixel(
            window.col_begin, window.col_end, window.width, x, context.workspace.info().num_tokens);
        int best = 0;
        for (std::int64_t key = keys.first; key < keys.second; ++key) {
          if (key >= chunk.begin) {
            if (key < chunk.end() && best == 0) line[x] = context.palette.current;
            continue;
          }
          if (key >= static_cast<std::int64_t>(verdicts->verdict.size())) continue;
          const KeyVerdict verdict = verdicts->verdict[static_cast<std::size_t>(key)];
          const int rank = verdict == KeyVerdict::Miss    ? 4
                           : verdict == KeyVerdict::Hit   ? 3
                           : verdict == KeyVerdict::Waste ? 2
                                                          : 1;
          if (rank > best) {
            best = rank;
            line[x] = widgets::color_of(context.palette, verdict);
          }
        }
      }
      for (int y = 0; y < window.height; ++y)
        std::copy(line.begin(), line.end(),
                  pixels.begin() + static_cast<std::ptrdiff_t>(y) * window.width);
    };
    spec.show_y_ticks = false;
    spec.x_range = &x_range_;
    map_plot_ui(context, spec, rug_texture_, {});
  }

  void rows_ui(DrawContext& context, const Matrix& rows, ImVec2 size) {
    const trace::ChunkInfo& chunk = context.workspace.chunk();
    MapPlotSpec spec;
    spec.id = "##chunk rows";
    spec.x_label = "key (token position)";
    spec.y_label = fmt::format("chunk {}", context.workspace.selection().chunk);
    spec.rows = chunk.length;
    spec.cols = context.workspace.info().num_tokens;
    spec.size = size;
    spec.content_key = fmt::format("{}|{}|{}", static_cast<const void*>(rows.values.data()),
                                   rows.rows, look_key(context));
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_matrix(context.palette, range_, rows, window, 1.0, 0, pixels);
    };
    spec.x_range = &x_range_;
    if (rows_shown_ != chunk.length) {
      rows_shown_ = chunk.length;
      rows_range_ = {0, static_cast<double>(chunk.length)};
    }
    spec.y_range = &rows_range_;
    const auto hit =
        map_plot_ui(context, spec, rows_texture_, [&] { span_marks_ui(context, true); });
    if (hit)
      point_at(context, chunk.begin + static_cast<std::int32_t>(hit->row),
               static_cast<std::int32_t>(hit->col), hit->clicked, nullptr);
  }

  static void point_at(DrawContext& context, std::int32_t query, std::int32_t key, bool clicked,
                       const analysis::AttentionMap* map) {
    auto& workspace = context.workspace;
    if (clicked) {
      workspace.change("", [&](state::Selection& s) {
        s.chunk = workspace.info().chunk_of_token(query);
        s.query = query;
        s.key_begin = key;
        s.key_end = key + 1;
      });
    }
    if (!ImGui::BeginTooltip()) return;
    ImGui::Text("query %s   (chunk %d)", token_line(workspace, query).c_str(),
                workspace.info().chunk_of_token(query));
    ImGui::Text("key    %s   (chunk %d)", token_line(workspace, key).c_str(),
                workspace.info().chunk_of_token(key));
    if (key > query) {
      ImGui::TextUnformatted("after the query: not visible");
    } else {
      const auto row = workspace.attention_row(query);
      if (row.state == state::ResultState::Ready && key < row->cols)
        ImGui::Text("attention %.6g", static_cast<double>(row->at(0, key)));
      else
        ImGui::TextUnformatted("attention \u2026");
      if (map != nullptr && map->step > 1) {
        const std::int64_t r = query / map->step, c = key / map->step;
        if (r < map->max.rows && c < map->max.cols)
          ImGui::Text("largest of these %lld x %lld cells %.6g", static_cast<long long>(map->step),
                      static_cast<long long>(map->step), static_cast<double>(map->max.at(r, c)));
      }
    }
    ImGui::EndTooltip();
  }

  ColorRange range_;
  widgets::MapTexture map_texture_, rug_texture_, rows_texture_;
  ImPlotRange x_range_, y_range_, rows_range_;
  double shown_tokens_ = 0;
  std::int32_t rows_shown_ = 0;
};

}  // namespace

std::unique_ptr<Panel> make_attention_map_panel() { return std::make_unique<AttentionMapPanel>(); }

}  // namespace kvloupe::panels
