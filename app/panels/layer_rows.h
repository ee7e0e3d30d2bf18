// Cells by layer and row of a method (a KV head, a query head or several): layers run across, rows
// down, with their numbers beside.
#pragma once

#include "app/panels/panel.h"
#include "app/widgets/figure.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::panels {

struct LayerRows {
  struct Cell {
    std::size_t layer_idx = 0;
    int row = 0;
  };
  const std::vector<int>& layers;
  int num_rows = 1;
  int q_heads_per_row = 1;
  ImVec2 at;
  float cell_w = 0, cell_h = 0;

  // From the cursor on, as wide as there is room beside the numbers.
  LayerRows(const std::vector<int>& shown, int rows, int heads_per_row, float left, float top)
      : layers(shown),
        num_rows(std::max(1, rows)),
        q_heads_per_row(std::max(1, heads_per_row)),
        at(ImGui::GetCursorScreenPos().x + left, ImGui::GetCursorScreenPos().y + top),
        cell_h(row_height(num_rows)) {
    const float room = ImGui::GetContentRegionAvail().x - left - widgets::em(0.2F);
    cell_w = std::clamp(room / static_cast<float>(std::max<std::size_t>(1, layers.size())), 2.0F,
                        widgets::em(2.2F));
  }
  static float row_height(int rows) {
    return std::clamp(widgets::em(6) / static_cast<float>(rows), widgets::em(0.3F),
                      widgets::em(1.05F));
  }
  ImVec2 from(Cell cell) const {
    return {at.x + cell_w * static_cast<float>(cell.layer_idx) + 0.5F,
            at.y + cell_h * static_cast<float>(cell.row) + 0.5F};
  }
  ImVec2 to(Cell cell) const {
    const ImVec2 corner = from(cell);
    return {corner.x + cell_w - 1, corner.y + cell_h - 1};
  }

  // As many layers are numbered as have this room each.
  void numbers_ui(ImU32 color, trace::RowAxis axis, float layer_room) const {
    const float line = ImGui::GetTextLineHeight();
    const auto draw = [color](int number, const auto& corner_of_width) {
      const std::string text = std::to_string(number);
      ImGui::GetWindowDrawList()->AddText(corner_of_width(ImGui::CalcTextSize(text.c_str()).x),
                                          color, text.c_str());
    };
    const auto step = static_cast<std::size_t>(std::max(1.0F, std::ceil(layer_room / cell_w)));
    for (std::size_t l = 0; l < layers.size(); l += step)
      draw(layers[l], [&](float width) {
        return ImVec2(from({l, 0}).x + (cell_w - width) / 2, at.y - line - 1);
      });
    const int row_step = std::max(1, static_cast<int>(std::ceil(line / cell_h)));
    for (int row = 0; row < num_rows; row += row_step)
      draw(axis == trace::RowAxis::KvHead ? row : row * q_heads_per_row, [&](float width) {
        return ImVec2(at.x - width - widgets::em(0.4F), from({0, row}).y + (cell_h - line) / 2);
      });
  }
  // As large as all cells.
  bool button_ui(const char* name) const {
    ImGui::SetCursorScreenPos(at);
    return ImGui::InvisibleButton(
        name, {cell_w * static_cast<float>(layers.size()), cell_h * static_cast<float>(num_rows)});
  }

  // Nothing where it is not among them.
  std::optional<Cell> find(int layer, int row) const {
    const auto found = std::find(layers.begin(), layers.end(), layer);
    if (found == layers.end() || row >= num_rows) return std::nullopt;
    return Cell{static_cast<std::size_t>(found - layers.begin()), row};
  }
  std::optional<Cell> cell_of(const state::Place& place) const {
    return find(place.layer, place.q_head / q_heads_per_row);
  }
  Cell cell_at_mouse() const {
    const ImVec2 mouse = ImGui::GetMousePos();
    return {std::min(static_cast<std::size_t>(std::max(0.0F, (mouse.x - at.x) / cell_w)),
                     layers.size() - 1),
            std::clamp(static_cast<int>((mouse.y - at.y) / cell_h), 0, num_rows - 1)};
  }
  // The place at the first query head of the cell.
  state::Place place_at(state::Place place, Cell cell) const {
    place.layer = layers[cell.layer_idx];
    place.q_head = cell.row * q_heads_per_row;
    return place;
  }
  // The current place, which keeps its query head where that is one of the cell's.
  void go_to(const DrawContext& context, Cell cell) const {
    context.workspace.cursor.change("", [&](state::Selection& s) {
      const int q_head = s.place.q_head;
      s.place = place_at(s.place, cell);
      if (q_head / q_heads_per_row == cell.row) s.place.q_head = q_head;
    });
  }
};

}  // namespace kvloupe::panels
