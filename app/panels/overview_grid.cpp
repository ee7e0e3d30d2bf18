#include "app/panels/overview_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::panels {

using replay::Number;
using replay::NumberInfo;

namespace {

ImU32 falling(const widgets::Palette& palette, double t) {
  return widgets::diverging_color(palette, 1 - t);
}

void number_in(ImDrawList* draw, double value, ImU32 color, ImVec2 from, ImVec2 to) {
  if (std::isnan(value)) return;
  // No minus before what rounds to 0.
  const std::string text = fmt::format("{:.2f}", std::abs(value) < 0.005 ? 0.0 : value);
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  draw->AddText({(from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2},
                widgets::ink_on(color), text.c_str());
}

// A head of another trace's grid is one of this trace where both have as many.
bool is_here(const state::Workspace& workspace, const Overview& result, int layer) {
  const trace::ModelInfo &here = workspace.place().info().model,
                         &there = result.question.place.info().model;
  return workspace.place().info().has_layer(layer) && here.num_layers == there.num_layers &&
         here.num_q_heads == there.num_q_heads && here.num_kv_heads == there.num_kv_heads;
}

}  // namespace

Coloring::Coloring(const NumberInfo& info, state::OverviewScale::Range ends)
    : color(info.better == replay::Better::Neither ? widgets::score_color
            : info.higher_is_better()              ? widgets::share_color
                                                   : falling),
      range(ends) {}

Coloring::Coloring(state::OverviewScale::Range ends)
    : color(widgets::slot_diverging_color), range(ends) {}

ImU32 Coloring::at(const widgets::Palette& palette, double value) const {
  if (std::isnan(value)) return palette.raised;
  return color(palette, std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0));
}

// Where the cells lie.
struct OverviewGrid::Cells {
  int num_layers = 0, num_heads = 0;
  bool wide = false;  // layers run across
  ImVec2 origin, at;  // of the axis names, of the first cell
  float cell_w = 0, cell_h = 0;

  // In the window cells are at least as large as `least`, times `zoom`: where that is more than there is
  // room for, it scrolls.
  Cells(const analysis::Overview& overview, bool layers_across, bool figure, ImVec2 least,
        float zoom)
      : num_layers(static_cast<int>(overview.values.rows)),
        num_heads(static_cast<int>(overview.values.cols)),
        wide(layers_across),
        origin(ImGui::GetCursorScreenPos()) {
    ImVec2 room = ImGui::GetContentRegionAvail();
    const ImVec2 margin(widgets::em(2.2F), widgets::em(2.9F));
    if (figure) {
      const float cells = std::max(widgets::em(4), 3 * static_cast<float>(down()));
      room.y = std::max(room.y, margin.y + 2 + cells);
    }
    at = {origin.x + margin.x, origin.y + margin.y};
    cell_w = std::min((room.x - margin.x - 2) / static_cast<float>(std::max(1, across())),
                      widgets::em(6));
    cell_h = std::min((room.y - margin.y - 2) / static_cast<float>(std::max(1, down())),
                      widgets::em(figure ? 14.0F : 4.6F));
    if (figure) return;
    cell_w = std::max(cell_w, least.x) * zoom;
    cell_h = std::max(cell_h, least.y) * zoom;
  }

  int across() const { return wide ? num_layers : num_heads; }
  int down() const { return wide ? num_heads : num_layers; }
  bool fits() const { return across() > 0 && down() > 0 && cell_w >= 2 && cell_h >= 2; }
  ImVec2 extent() const {
    return {cell_w * static_cast<float>(across()), cell_h * static_cast<float>(down())};
  }
  ImVec2 from(int layer, int head) const {
    return {at.x + cell_w * static_cast<float>(wide ? layer : head) + 0.5F,
            at.y + cell_h * static_cast<float>(wide ? head : layer) + 0.5F};
  }
  ImVec2 to(int layer, int head) const {
    const ImVec2 corner = from(layer, head);
    return {corner.x + cell_w - 1, corner.y + cell_h - 1};
  }
  // Row of the layer and column of the head under the mouse.
  std::pair<int, int> under(ImVec2 mouse) const {
    const int x = std::clamp(static_cast<int>((mouse.x - at.x) / cell_w), 0, across() - 1);
    const int y = std::clamp(static_cast<int>((mouse.y - at.y) / cell_h), 0, down() - 1);
    return wide ? std::pair{x, y} : std::pair{y, x};
  }
};

void go_to_cell(state::Workspace& workspace, const state::OverviewQuestion::Answer& answer,
                int layer, int column) {
  workspace.cursor.change("", [&](state::Selection& s) {
    s.place.layer = layer;
    if (s.place.q_head / answer.q_heads_per_column != column)
      s.place.q_head = column * answer.q_heads_per_column;
  });
}

void OverviewGrid::begin_frame(const state::Place& place, std::size_t num_grids,
                               bool frames_first) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const trace::TraceInfo& info = place.info();
  const bool more_layers = static_cast<int>(info.layers.size()) >= info.model.num_q_heads;
  layers_across_ = (room.x > room.y * 1.2F) == more_layers;
  frames_first_ = frames_first;
  num_grids_ = num_grids;
  pointed_ = std::exchange(pointing_, std::nullopt);
}

// A number has room in 14 x 18 pixels of normal size. Of many grids each is seen whole: what counts is
// the pattern.
ImVec2 OverviewGrid::least_cell() const {
  const float pixel = widgets::em(1 / 15.0F);
  return num_grids_ > 2 ? ImVec2(4 * pixel, 4 * pixel) : ImVec2(14 * pixel, 18 * pixel);
}

ImVec2 OverviewGrid::size(const analysis::Overview& overview) const {
  const ImVec2 least = least_cell();
  const widgets::FontScope small(widgets::Type::Caption);
  const Cells grid(overview, layers_across_, false, least, zoom_);
  return {grid.at.x - grid.origin.x + grid.extent().x + 4,
          grid.at.y - grid.origin.y + grid.extent().y + 4};
}

void OverviewGrid::draw(DrawContext& context, const Overview& result, const NumberInfo& info,
                        const Coloring& coloring) {
  const ImVec2 least = least_cell();
  const widgets::FontScope small(widgets::Type::Caption);
  const Cells grid(result->overview, layers_across_, context.figure, least, zoom_);
  if (!grid.fits()) return;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const auto& values = result->overview.values.values;
  const bool signs =
      std::any_of(values.begin(), values.end(), [](double value) { return value <= -0.005; });
  const bool numbers = grid.cell_w > ImGui::CalcTextSize(signs ? "-0.00" : "0.00").x + 1 &&
                       grid.cell_h > ImGui::GetTextLineHeight();
  for (int l = 0; l < grid.num_layers; ++l)
    for (int h = 0; h < grid.num_heads; ++h) {
      const double value = result->overview.values.at(l, h);
      const ImVec2 from = grid.from(l, h), to = grid.to(l, h);
      const ImU32 color = coloring.at(context.palette, value);
      draw->AddRectFilled(from, to, color, std::min(3.0F, grid.cell_h * 0.2F));
      if (std::isnan(value)) draw->AddLine({from.x, to.y}, {to.x, from.y}, context.palette.faint);
      if (info.number == Number::RelevancePearson && value > 0.5)
        draw->AddRect({from.x + 1, from.y + 1}, {to.x - 1, to.y - 1}, context.palette.text, 2, 0,
                      1.5F);
      if (numbers) number_in(draw, value, color, from, to);
    }
  framed_ui(context, grid, result);
  current_ui(context, grid, result);
  axes_ui(context, grid, *result);
  ImGui::SetCursorScreenPos(grid.at);
  const bool pressed = ImGui::InvisibleButton("##cells", grid.extent());
  if (context.figure) return;
  const bool dragged = move_ui(grid);
  if (!ImGui::IsItemHovered()) return;
  const auto [l, h] = grid.under(ImGui::GetMousePos());
  const int layer = result->overview.layers[static_cast<std::size_t>(l)];
  state::Place there = result.question.place;
  there.layer = layer;
  there.q_head = h * result->q_heads_per_column;
  context.workspace.pointer.at({.place = there});
  widgets::tooltip("layer %d, %s %d\n%s %.4f\n%s", layer, head_word(*result), h, info.title,
                   static_cast<double>(result->overview.values.at(l, h)), info.sentence);
  if (pressed && !dragged && !result.stale && is_here(context.workspace, result, layer))
    go_to_cell(context.workspace, *result, layer, h);
}

// As in every map the wheel zooms, a drag pans and a double click shows it as at first. True while
// the cells are dragged.
bool OverviewGrid::move_ui(const Cells& grid) {
  constexpr float kLeastZoom = 0.25F, kMostZoom = 6;
  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetItemKeyOwner(ImGuiKey_MouseWheelY);
  const bool hovered = ImGui::IsItemHovered();
  if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) zoom_ = 1;
  if (hovered && io.MouseWheel != 0) {
    const float before = zoom_;
    zoom_ = std::clamp(zoom_ * std::pow(1.15F, io.MouseWheel), kLeastZoom, kMostZoom);
    // What is under the mouse stays there.
    const float more = zoom_ / before - 1;
    ImGui::SetScrollX(ImGui::GetScrollX() + more * (io.MousePos.x - grid.at.x));
    ImGui::SetScrollY(ImGui::GetScrollY() + more * (io.MousePos.y - grid.at.y));
  }
  const ImVec2 drag = ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F);
  const bool dragged = drag.x != 0 || drag.y != 0;
  if (ImGui::IsItemActive() && dragged) {
    ImGui::SetScrollX(ImGui::GetScrollX() - io.MouseDelta.x);
    ImGui::SetScrollY(ImGui::GetScrollY() - io.MouseDelta.y);
  }
  return dragged;
}

// The cell that the finding names.
void OverviewGrid::framed_ui(DrawContext& context, const Cells& grid, const Overview& result) {
  const auto framed = state::framed_cell(result.question, *result);
  if (!frames_first_ || !framed) return;
  const auto cell = static_cast<int>(*framed);
  const int l = cell / grid.num_heads, h = cell % grid.num_heads;
  const ImVec2 from = grid.from(l, h), to = grid.to(l, h);
  const float line = std::max(2.0F, widgets::em(0.14F));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRect({from.x - line, from.y - line}, {to.x + line, to.y + line}, context.palette.panel,
                3, 0, line);
  // Neither orange nor blue, as cells are.
  draw->AddRect(from, to, context.palette.series[3], 3, 0, line);
}

// The cell of the place; and the one under the mouse, in all grids.
void OverviewGrid::current_ui(DrawContext& context, const Cells& grid, const Overview& result) {
  pointed_ui(context, grid, *result);
  const state::Place& place = result.question.place;
  const std::vector<int>& layers = result->overview.layers;
  const auto layer = std::find(layers.begin(), layers.end(), place.layer);
  const int head = place.q_head / result->q_heads_per_column;
  if (layer == layers.end() || head >= grid.num_heads) return;
  const int l = static_cast<int>(layer - layers.begin());
  const ImVec2 from = grid.from(l, head), to = grid.to(l, head);
  // Two lines, so that it stands out from dark cells and light ones.
  const float line = std::max(2.0F, widgets::em(0.16F));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float out = 1.5F + line;
  draw->AddRect({from.x - out, from.y - out}, {to.x + out, to.y + out}, context.palette.panel, 4, 0,
                line);
  draw->AddRect({from.x - 1.5F, from.y - 1.5F}, {to.x + 1.5F, to.y + 1.5F}, context.palette.text, 3,
                0, line);
}

// Of several grids; one alone has the mouse.
void OverviewGrid::pointed_ui(DrawContext& context, const Cells& grid,
                              const state::OverviewQuestion::Answer& answer) {
  if (num_grids_ < 2 || context.figure) return;
  const int q_heads_per_column = answer.q_heads_per_column;
  const std::vector<int>& layers = answer.overview.layers;
  const auto row =
      pointed_ ? std::find(layers.begin(), layers.end(), pointed_->first) : layers.end();
  if (row != layers.end() && pointed_->second / q_heads_per_column < grid.num_heads) {
    const int head = pointed_->second / q_heads_per_column;
    const auto l = static_cast<int>(row - layers.begin());
    const ImVec2 from = grid.from(l, head), to = grid.to(l, head);
    ImGui::GetWindowDrawList()->AddRect(from, to, context.palette.text, 3, 0, widgets::em(0.1F));
  }
  const ImVec2 extent = grid.extent();
  const bool inside =
      ImGui::IsMouseHoveringRect(grid.at, {grid.at.x + extent.x, grid.at.y + extent.y});
  if (!inside || !ImGui::IsWindowHovered()) return;
  const auto [l, head] = grid.under(ImGui::GetMousePos());
  pointing_ = {layers[static_cast<std::size_t>(l)], head * q_heads_per_column};
}

// Numbers and names stay in sight while the cells scroll below them.
void OverviewGrid::axes_ui(DrawContext& context, const Cells& grid,
                           const state::OverviewQuestion::Answer& answer) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImU32 color = context.palette.muted;
  const ImVec2 scroll(ImGui::GetScrollX(), ImGui::GetScrollY());
  const ImVec2 margin(grid.at.x - grid.origin.x, grid.at.y - grid.origin.y);
  const ImVec2 corner(grid.origin.x + scroll.x, grid.origin.y + scroll.y);
  const ImVec2 extent = grid.extent();
  if (scroll.y > 0)
    draw->AddRectFilled(corner, {grid.at.x + extent.x + 2, corner.y + margin.y - 1},
                        context.palette.panel);
  if (scroll.x > 0)
    draw->AddRectFilled(corner, {corner.x + margin.x - 1, grid.at.y + extent.y + 2},
                        context.palette.panel);
  const ImVec2 first(corner.x + margin.x, corner.y + margin.y);  // of the cells in sight
  const char* head = head_word(answer);
  draw->AddText({first.x, corner.y}, color,
                grid.wide ? "layer \u2192" : fmt::format("{} \u2192", head).c_str());
  draw->AddText({corner.x, first.y - widgets::em(1.35F)}, color,
                !grid.wide                      ? "layer"
                : answer.overview.per_kv_head   ? "KV"
                : answer.q_heads_per_column > 1 ? "sub"
                                                : "q");
  const float line = ImGui::GetTextLineHeight();
  const auto text_of = [&](bool is_layer, int i) {
    return std::to_string(is_layer ? answer.overview.layers[static_cast<std::size_t>(i)] : i);
  };
  const int step_x = std::max(1, static_cast<int>(std::ceil(widgets::em(1.5F) / grid.cell_w)));
  const int step_y = std::max(1, static_cast<int>(std::ceil(line / grid.cell_h)));
  for (int i = 0; i < grid.across(); i += step_x) {
    const std::string text = text_of(grid.wide, i);
    const float middle = grid.at.x + grid.cell_w * (static_cast<float>(i) + 0.5F);
    if (middle < first.x) continue;
    draw->AddText(
        {middle - ImGui::CalcTextSize(text.c_str()).x / 2, first.y - line - widgets::em(0.2F)},
        color, text.c_str());
  }
  for (int i = 0; i < grid.down(); i += step_y) {
    const std::string text = text_of(!grid.wide, i);
    const float middle = grid.at.y + grid.cell_h * (static_cast<float>(i) + 0.5F);
    if (middle < first.y) continue;
    draw->AddText(
        {first.x - ImGui::CalcTextSize(text.c_str()).x - widgets::em(0.4F), middle - line / 2},
        color, text.c_str());
  }
}

}  // namespace kvloupe::panels
