// See block_plots.h.
#include "app/panels/block_plots.h"

#include "app/state/labels.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::BlockReport;
using replay::BlockState;
using state::BlockStage;

// A stage on the y axis, which counts rows of the masks.
struct StagePlace {
  const BlockStage* stage = nullptr;
  double row_height = 1;
  double begin = 0;

  double end() const { return begin + static_cast<double>(stage->rows) * row_height; }
  std::int64_t row_at(double y) const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((y - begin) / row_height), 0,
                                    stage->rows - 1);
  }
};

struct Layout {
  std::vector<StagePlace> places;
  double height = 0;

  const StagePlace* at(double y) const {
    for (const StagePlace& place : places)
      if (y >= place.begin && y < place.end()) return &place;
    return nullptr;
  }
};

// A union's row is as tall as a few rows of the masks.
Layout layout_of(const std::vector<BlockStage>& stages) {
  const auto mask_rows = static_cast<double>(stages.front().rows);
  const double tall = std::max(1.0, mask_rows / 8);
  const double gap = std::max(0.3, mask_rows / 12);
  Layout layout;
  double at = gap;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const BlockStage& stage = stages[i];
    // A stage that changes nothing is no picture of its own.
    if (!stage.changes) continue;
    StagePlace place{&stage, 1, at};
    if (!stage.of_masks()) place.row_height = stage.rows > 1 ? std::max(1.0, tall * 0.7) : tall;
    at = place.end() + gap * 1.6;
    layout.places.push_back(place);
  }
  layout.height = at - gap * 0.8;
  return layout;
}

// The most telling state of a pixel's blocks.
BlockState pixel_state(const BlockReport& report, const BlockStage& stage, std::int64_t row,
                       std::pair<std::int64_t, std::int64_t> columns) {
  auto best = BlockState::Future;
  for (std::int64_t j = columns.first; j < columns.second; ++j) {
    const BlockState state = stage.at(report, row, j);
    if (widgets::prominence_of(state) > widgets::prominence_of(best)) best = state;
  }
  return best;
}

void fill_line(const widgets::Palette& palette, const BlockReport& report, const StagePlace& place,
               std::int64_t row, const widgets::MapWindow& window, ImU32* line) {
  const std::int64_t blocks = report.grid.num_key_blocks();
  const double pixels_per_block = window.width / (window.col_end - window.col_begin);
  for (int x = 0; x < window.width; ++x) {
    const double column =
        window.col_begin + (x + 0.5) / window.width * (window.col_end - window.col_begin);
    if (column < 0 || column >= static_cast<double>(blocks)) continue;
    // A thin line between blocks where there is room for one.
    if (pixels_per_block > 8 && (column - std::floor(column)) * pixels_per_block < 1) continue;
    const auto columns = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                             window.width, x, blocks);
    line[x] = widgets::color_of(palette, pixel_state(report, *place.stage, row, columns));
  }
}

void fill_stages(const widgets::Palette& palette, const BlockReport& report, const Layout& layout,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const double rows_per_pixel = (window.row_end - window.row_begin) / window.height;
  for (int y = 0; y < window.height; ++y) {
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    std::fill(line, line + window.width, palette.panel);
    const double at = window.row_begin + (y + 0.5) * rows_per_pixel;
    const StagePlace* place = layout.at(at);
    if (place == nullptr) continue;
    const double row_pixels = place->row_height / rows_per_pixel;
    const double in_row = std::fmod(at - place->begin, place->row_height);
    if (row_pixels > 8 && in_row < rows_per_pixel) continue;  // a thin line between rows
    fill_line(palette, report, *place, place->row_at(at), window, line);
  }
}

void head_names_ui(DrawContext& context, const BlockReport& r, const StagePlace& masks) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const double left = ImPlot::GetPlotLimits().X.Min;
  const auto rows = static_cast<double>(r.grid.num_query_blocks());
  const widgets::FontScope small(widgets::Type::Caption);
  for (std::size_t head = 0; head < r.q_heads.size(); ++head) {
    const double begin = masks.begin + rows * static_cast<double>(head);
    const ImVec2 from = ImPlot::PlotToPixels(left, begin);
    const ImVec2 to = ImPlot::PlotToPixels(left, begin + rows);
    if (to.y - from.y < ImGui::GetTextLineHeight()) continue;
    const std::string text = fmt::format("q {}", r.q_heads[head]);
    const ImVec2 size = ImGui::CalcTextSize(text.c_str());
    const ImVec2 at(from.x + widgets::em(0.2F), from.y + widgets::em(0.15F));
    draw->AddRectFilled(at, {at.x + size.x + widgets::em(0.4F), at.y + size.y},
                        widgets::with_alpha(context.palette.panel, 0.85F));
    draw->AddText({at.x + widgets::em(0.2F), at.y}, context.palette.text, text.c_str());
  }
}

// Where heads change in the masks, and where the chunk begins.
void marks_ui(DrawContext& context, const BlockReport& r, const Layout& layout) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const float width = std::max(1.0F, widgets::em(0.1F));
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const StagePlace& masks = layout.places.front();
  for (std::size_t head = 1; head < r.q_heads.size(); ++head) {
    const double y =
        masks.begin + static_cast<double>(head) * static_cast<double>(r.grid.num_query_blocks());
    draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, y), ImPlot::PlotToPixels(limits.X.Max, y),
                  context.palette.text, width);
  }
  const double begin =
      static_cast<double>(r.grid.past_len) / static_cast<double>(r.grid.block_size);
  draw->AddLine(ImPlot::PlotToPixels(begin, limits.Y.Min),
                ImPlot::PlotToPixels(begin, limits.Y.Max), context.palette.accent, width);
  head_names_ui(context, r, masks);
  ImPlot::PopPlotClipRect();
}

// Where the watched span is kept: the cells that decide about it.
void watched_ui(DrawContext& context, const Tables& result, const Layout& layout) {
  const auto span = state::watched_keys(result.question.place);
  if (!span) return;
  const BlockReport& r = result->report;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  // A span may be all of the text: no more frames than are in sight.
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  std::vector<std::int64_t> blocks;
  for (std::int64_t block = 0; block < r.grid.num_past_blocks(); ++block)
    if (span->keys.meets(r.grid.key_begin(block), r.grid.key_end(block)) &&
        static_cast<double>(block) + 1 >= limits.X.Min &&
        static_cast<double>(block) <= limits.X.Max)
      blocks.push_back(block);
  ImPlot::PushPlotClipRect();
  for (const StagePlace& place : layout.places)
    for (std::int64_t row = 0; row < place.stage->rows; ++row)
      for (const std::int64_t block : blocks) {
        if (place.stage->at(r, row, block) == BlockState::Dropped) continue;
        const double top = place.begin + static_cast<double>(row) * place.row_height;
        if (top + place.row_height < limits.Y.Min || top > limits.Y.Max) continue;
        const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(block), top);
        const ImVec2 to =
            ImPlot::PlotToPixels(static_cast<double>(block) + 1, top + place.row_height);
        if (to.x - from.x < 4 || to.y - from.y < 4) continue;
        draw->AddRect(from, to, context.palette.text, 0, 0, std::max(1.5F, widgets::em(0.14F)));
      }
  ImPlot::PopPlotClipRect();
}

void point_at(DrawContext& context, const Tables& result, const Layout& layout,
              const MapPlotHit& hit) {
  const StagePlace* place = layout.at(hit.row);
  if (place == nullptr) return;
  const BlockReport& r = result->report;
  const BlockStage& stage = *place->stage;
  const auto block = static_cast<std::int64_t>(hit.col);
  const std::int64_t row = place->row_at(hit.row);
  const std::int64_t begin = r.grid.key_begin(block), end = r.grid.key_end(block);
  const trace::KeySet keys(static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end));
  if (hit.clicked && !result.stale) context.workspace.cursor.set_keys(keys);
  context.workspace.pointer.at({.place = result.question.place, .keys = keys});
  std::vector<widgets::TooltipLine> lines{
      {fmt::format("block {}: tokens {} to {}", block, format_count(begin), format_count(end - 1))},
      {fmt::format("KV head {}, page {}", result->kv_head,
                   trace::page_id(r.grid, result->kv_head, block))}};
  if (stage.of_masks()) {
    const std::int64_t query_blocks = r.grid.num_query_blocks(), i = row % query_blocks;
    lines.push_back({fmt::format("query head {}, query block {}: queries {} to {}",
                                 r.q_heads[static_cast<std::size_t>(row / query_blocks)],
                                 r.grid.block_of_query_block(i),
                                 format_count(r.grid.past_len + r.grid.row_begin(i)),
                                 format_count(r.grid.past_len + r.grid.row_end(i) - 1))});
  } else if (stage.rows > 1) {
    lines.push_back({fmt::format("query head {}", r.q_heads[static_cast<std::size_t>(row)])});
  }
  const BlockState state = stage.at(r, row, block);
  lines.push_back({state::label_of(state), widgets::color_of(context.palette, state)});
  widgets::tooltip(std::move(lines));
}

// Beside a stage: its name, how dense it is, and how much of that is kept by rule.
struct DensityLabel {
  std::string title, numbers;
  const replay::StageDensity* density = nullptr;
  float middle = 0;  // of the stage on the screen
  float height = 0;
  float top = 0;
};

struct LabelColumn {
  float x = 0, width = 0, top = 0, bottom = 0;
};

float bar_height() { return widgets::em(0.55F); }

// On as many lines as it takes.
float title_height(const std::string& title, float width) {
  const widgets::FontScope strong(widgets::Type::Strong);
  return ImGui::CalcTextSize(title.c_str(), nullptr, false, width).y;
}

std::vector<DensityLabel> labels_of(const BlockReport& report, const Layout& layout,
                                    const std::vector<float>& middles, const LabelColumn& column,
                                    bool with_numbers) {
  std::vector<DensityLabel> labels;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    const BlockStage& stage = *layout.places[i].stage;
    DensityLabel label;
    label.density = &(report.*stage.density);
    label.middle = middles[i];
    const widgets::FontScope small(widgets::Type::Caption);
    label.title = stage.title;
    label.height = title_height(label.title, column.width) + bar_height() + widgets::em(0.4F);
    if (with_numbers) {
      const std::string forced =
          report.knows_forced ? fmt::format(" ({} by rule)", share_text(label.density->forced.past))
                              : std::string();
      label.numbers = fmt::format("{} of the past{}, {} of causal pairs, {} of all",
                                  share_text(label.density->kept.past), forced,
                                  share_text(label.density->kept.causal),
                                  share_text(label.density->kept.rectangle));
      label.height += ImGui::CalcTextSize(label.numbers.c_str(), nullptr, false, column.width).y;
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

// Each beside its stage, as far as they leave each other room; false if they cannot all have it.
bool stack(std::vector<DensityLabel>& labels, const LabelColumn& column) {
  const float gap = widgets::em(0.5F);
  float free_from = column.top;
  for (DensityLabel& label : labels) {
    label.top = std::max(free_from, label.middle - label.height / 2);
    free_from = label.top + label.height + gap;
  }
  float free_to = column.bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->top = std::min(label->top, free_to - label->height);
    free_to = label->top - gap;
  }
  return labels.front().top >= column.top;
}

void label_ui(DrawContext& context, const DensityLabel& label, const LabelColumn& column) {
  const auto& p = context.palette;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  float y = label.top;
  {
    const widgets::FontScope strong(widgets::Type::Strong);
    draw->AddText(nullptr, 0.0F, {column.x, y}, p.text, label.title.c_str(), nullptr, column.width);
    y += title_height(label.title, column.width) + widgets::em(0.15F);
  }
  const auto bar = [&](double share, ImU32 color) {
    draw->AddRectFilled({column.x, y},
                        {column.x + column.width * static_cast<float>(share), y + bar_height()},
                        color);
  };
  bar(1, p.dropped);
  bar(label.density->kept.past, p.hit);
  bar(label.density->forced.past, widgets::color_of(p, BlockState::Forced));
  y += bar_height() + widgets::em(0.1F);
  const widgets::FontScope small(widgets::Type::Caption);
  draw->AddText(nullptr, 0.0F, {column.x, y}, p.muted, label.numbers.c_str(), nullptr,
                column.width);
}

// Without the numbers where there is no room for them.
void labels_ui(DrawContext& context, const BlockReport& report, const Layout& layout,
               const std::vector<float>& middles, const LabelColumn& column) {
  auto labels = labels_of(report, layout, middles, column, true);
  if (!stack(labels, column)) {
    labels = labels_of(report, layout, middles, column, false);
    stack(labels, column);
  }
  for (const DensityLabel& label : labels) label_ui(context, label, column);
}

}  // namespace

void BlockPlots::draw(DrawContext& context, const Tables& result) {
  const BlockReport& report = result->report;
  const Layout layout = layout_of(result->stages);
  constexpr float kLeastHeight = 13;  // so that every stage has its name and bar beside it
  ImVec2 room = ImGui::GetContentRegionAvail();
  room.y = std::max(room.y, widgets::em(kLeastHeight));
  const float side = std::min(room.x * 0.34F, widgets::em(21));
  const auto blocks = static_cast<double>(report.grid.num_key_blocks());
  if (extent_ != std::pair(blocks, layout.height)) {
    extent_ = {blocks, layout.height};
    x_range_ = {0, blocks};
    y_range_ = {0, layout.height};
  }
  MapPlotSpec spec;
  spec.id = "##block stages";
  spec.x_label = fmt::format("key block (of {} token{})", report.grid.block_size,
                             report.grid.block_size == 1 ? "" : "s");
  spec.rows = layout.height;
  spec.cols = blocks;
  spec.size = {room.x - side, room.y};
  spec.show_y_ticks = false;
  spec.content_key = result.key;
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_stages(context.palette, report, layout, window, pixels);
  };
  spec.x_range = &x_range_;
  spec.y_range = &y_range_;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  std::vector<float> middles;
  const auto hit = map_plot_ui(context, spec, texture_, [&] {
    for (const StagePlace& place : layout.places)
      middles.push_back(ImPlot::PlotToPixels(0.0, (place.begin + place.end()) / 2).y);
    marks_ui(context, report, layout);
    watched_ui(context, result, layout);
    span_marks_ui(context, result.question.place, true,
                  static_cast<double>(report.grid.block_size));
  });
  if (hit) point_at(context, result, layout, *hit);
  if (middles.size() == layout.places.size())
    labels_ui(context, report, layout, middles,
              {corner.x + room.x - side + widgets::em(0.8F), side - widgets::em(1), corner.y,
               corner.y + room.y});
}

}  // namespace kvloupe::panels
