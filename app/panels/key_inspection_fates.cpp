// The key in one chunk of all layers and rows: is it lost here alone, or everywhere?
#include "app/panels/key_inspection.h"
#include "app/panels/layer_rows.h"
#include "app/state/questions/why_lost/explain_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using state::KeyFatesQuestion;
using Fates = state::Result<KeyFatesQuestion>;

void current_ui(DrawContext& context, const LayerRows& grid, const state::Place& place) {
  const auto cell = grid.cell_of(place);
  if (!cell) return;
  const ImVec2 from = grid.from(*cell), to = grid.to(*cell);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float line = widgets::em(0.13F);
  draw->AddRect({from.x - 1.5F - line, from.y - 1.5F - line},
                {to.x + 1.5F + line, to.y + 1.5F + line}, context.palette.panel, 3, 0, line);
  draw->AddRect({from.x - 1.5F, from.y - 1.5F}, {to.x + 1.5F, to.y + 1.5F}, context.palette.text, 3,
                0, line);
}

void point_at(DrawContext& context, const Fates& fates, const LayerRows& grid, bool pressed) {
  const LayerRows::Cell cell = grid.cell_at_mouse();
  const KeyFatesQuestion::Fate& fate = fates->at(cell.layer_idx, cell.row);
  context.workspace.pointer.at({.place = grid.place_at(fates.question.place, cell)});
  widgets::tooltip("layer %d, %s\n%s", fates->layers[cell.layer_idx],
                   replay::row_words({fates->axis, fates->q_heads_per_row}, cell.row).c_str(),
                   state::words_of(fate.state, fate.dense).c_str());
  if (pressed && !fates.stale) grid.go_to(context, cell);
}

std::string head_word(const KeyFatesQuestion::Answer& answer) {
  return answer.axis == trace::RowAxis::KvHead ? "KV heads" : "query heads";
}

}  // namespace

float key_fates_height(const KeyUnderMethod& key) {
  const int rows = key.fates ? key.fates->num_rows : 0;
  const float height = rows == 0 ? 0 : LayerRows::row_height(rows) * static_cast<float>(rows);
  return height + ImGui::GetTextLineHeightWithSpacing() * 2 + widgets::em(0.8F);
}

void key_fates_ui(DrawContext& context, const KeyUnderMethod& key) {
  const Fates& fates = key.fates;
  if (!fates) {
    widgets::text_wrapped(context.palette.muted, fates.state == state::ResultState::Loading
                                                     ? "Following the key through the layers\u2026"
                                                     : problem_of(fates));
    return;
  }
  const state::Place& place = fates.question.place;
  heading_ui(
      context, "This key in all layers",
      fates->decided == 0
          ? fmt::format("{}: nowhere up for choice", chunk_name(place.info(), place.chunk))
          : fmt::format("{}, layers x {}: kept in {} of {}", chunk_name(place.info(), place.chunk),
                        head_word(*fates), fates->kept, fates->decided));
  const widgets::FontScope small(widgets::Type::Caption);
  const LayerRows grid(fates->layers, fates->num_rows, fates->q_heads_per_row, widgets::em(2.4F),
                       ImGui::GetTextLineHeight() + widgets::em(0.2F));
  grid.numbers_ui(context.palette.muted, fates->axis, widgets::em(1.7F));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (std::size_t l = 0; l < fates->layers.size(); ++l)
    for (int row = 0; row < fates->num_rows; ++row) {
      const KeyFatesQuestion::Fate& fate = fates->at(l, row);
      const ImVec2 from = grid.from({l, row}), to = grid.to({l, row});
      const float rounding = std::min(2.5F, grid.cell_h * 0.2F);
      widgets::key_rect(draw, context.palette, from, to,
                        color_of_life(context.palette, fate.state, fate.dense), rounding);
      draw->AddRect(from, to, widgets::with_alpha(context.palette.faint, 0.35F), rounding);
    }
  current_ui(context, grid, place);
  const bool pressed = grid.button_ui("###fates");
  if (!context.figure && ImGui::IsItemHovered()) point_at(context, fates, grid, pressed);
  // Where rows are low the number of the last one is higher than its row.
  ImGui::Dummy({0, widgets::grid(0.5F)});
}

}  // namespace kvloupe::panels
