// The key in one chunk of all layers and rows: is it lost here alone, or everywhere?
#include "app/panels/key_inspection.h"
#include "app/state/questions/why_lost/explain_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using state::KeyFatesQuestion;
using Fates = state::Result<KeyFatesQuestion>;

// Layers run across, rows down.
struct Grid {
  ImVec2 at;
  float cell_w = 0, cell_h = 0;

  explicit Grid(const KeyFatesQuestion::Answer& answer) {
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeight();
    at = {origin.x + widgets::em(2.4F), origin.y + line + widgets::em(0.2F)};
    const float room = ImGui::GetContentRegionAvail().x - widgets::em(2.6F);
    cell_w = std::clamp(room / static_cast<float>(std::max<std::size_t>(1, answer.layers.size())),
                        2.0F, widgets::em(2.2F));
    cell_h = height_of(answer.num_rows) / static_cast<float>(std::max(1, answer.num_rows));
  }
  static float height_of(int rows) {
    const auto count = static_cast<float>(rows);
    return std::min(widgets::em(1.05F) * count,
                    std::max(widgets::em(6), widgets::em(0.3F) * count));
  }
  ImVec2 from(std::size_t layer_idx, int row) const {
    return {at.x + cell_w * static_cast<float>(layer_idx) + 0.5F,
            at.y + cell_h * static_cast<float>(row) + 0.5F};
  }
  ImVec2 to(std::size_t layer_idx, int row) const {
    const ImVec2 corner = from(layer_idx, row);
    return {corner.x + cell_w - 1, corner.y + cell_h - 1};
  }
};

void numbers_ui(DrawContext& context, const Grid& grid, const KeyFatesQuestion::Answer& answer) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float line = ImGui::GetTextLineHeight();
  const auto step =
      static_cast<std::size_t>(std::max(1.0F, std::ceil(widgets::em(1.7F) / grid.cell_w)));
  for (std::size_t l = 0; l < answer.layers.size(); l += step) {
    const std::string text = std::to_string(answer.layers[l]);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    draw->AddText({grid.from(l, 0).x + (grid.cell_w - width) / 2, grid.at.y - line - 1},
                  context.palette.muted, text.c_str());
  }
  const int row_step = std::max(1, static_cast<int>(std::ceil(line / grid.cell_h)));
  for (int row = 0; row < answer.num_rows; row += row_step) {
    const std::string text =
        std::to_string(answer.axis == trace::RowAxis::KvHead ? row : row * answer.q_heads_per_row);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    draw->AddText(
        {grid.at.x - width - widgets::em(0.4F), grid.from(0, row).y + (grid.cell_h - line) / 2},
        context.palette.muted, text.c_str());
  }
}

void current_ui(DrawContext& context, const Grid& grid, const Fates& fates, int row) {
  const auto& layers = fates->layers;
  const auto layer = std::find(layers.begin(), layers.end(), fates.question.place.layer);
  if (layer == layers.end() || row >= fates->num_rows) return;
  const auto l = static_cast<std::size_t>(layer - layers.begin());
  const ImVec2 from = grid.from(l, row), to = grid.to(l, row);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float line = widgets::em(0.13F);
  draw->AddRect({from.x - 1.5F - line, from.y - 1.5F - line},
                {to.x + 1.5F + line, to.y + 1.5F + line}, context.palette.panel, 3, 0, line);
  draw->AddRect({from.x - 1.5F, from.y - 1.5F}, {to.x + 1.5F, to.y + 1.5F}, context.palette.text, 3,
                0, line);
}

void point_at(DrawContext& context, const Fates& fates, const Grid& grid, bool pressed) {
  const ImVec2 mouse = ImGui::GetMousePos();
  const auto l =
      std::min(static_cast<std::size_t>(std::max(0.0F, (mouse.x - grid.at.x) / grid.cell_w)),
               fates->layers.size() - 1);
  const int row =
      std::clamp(static_cast<int>((mouse.y - grid.at.y) / grid.cell_h), 0, fates->num_rows - 1);
  const KeyFatesQuestion::Fate& fate = fates->at(l, row);
  const int per_row = fates->q_heads_per_row;
  state::Place there = fates.question.place;
  there.layer = fates->layers[l];
  there.q_head = row * per_row;
  context.workspace.pointer.at({.place = there});
  widgets::tooltip("layer %d, %s\n%s", fates->layers[l],
                   replay::row_words({fates->axis, fates->q_heads_per_row}, row).c_str(),
                   state::words_of(fate.state, fate.dense).c_str());
  if (!pressed || fates.stale) return;
  context.workspace.cursor.change("", [&](state::Selection& s) {
    s.place.layer = fates->layers[l];
    if (s.place.q_head / per_row != row) s.place.q_head = row * per_row;
  });
}

std::string head_word(const KeyFatesQuestion::Answer& answer) {
  return answer.axis == trace::RowAxis::KvHead ? "KV heads" : "query heads";
}

}  // namespace

float key_fates_height(const KeyUnderMethod& key) {
  const float rows = key.fates ? Grid::height_of(key.fates->num_rows) : 0;
  return rows + ImGui::GetTextLineHeightWithSpacing() * 2 + widgets::em(0.8F);
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
      context, "All layers",
      fates->decided == 0
          ? fmt::format("{}: nowhere up for choice", chunk_name(place.info(), place.chunk))
          : fmt::format("{}, layers x {}: kept in {} of {}", chunk_name(place.info(), place.chunk),
                        head_word(*fates), fates->kept, fates->decided));
  const widgets::FontScope small(widgets::Type::Caption);
  const Grid grid(*fates);
  numbers_ui(context, grid, *fates);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (std::size_t l = 0; l < fates->layers.size(); ++l)
    for (int row = 0; row < fates->num_rows; ++row) {
      const KeyFatesQuestion::Fate& fate = fates->at(l, row);
      const float rounding = std::min(2.5F, grid.cell_h * 0.2F);
      widgets::key_rect(draw, context.palette, grid.from(l, row), grid.to(l, row),
                        color_of_life(context.palette, fate.state, fate.dense), rounding);
      draw->AddRect(grid.from(l, row), grid.to(l, row),
                    widgets::with_alpha(context.palette.faint, 0.35F), rounding);
    }
  current_ui(context, grid, fates, place.q_head / fates->q_heads_per_row);
  ImGui::SetCursorScreenPos(grid.at);
  const bool pressed =
      ImGui::InvisibleButton("###fates", {grid.cell_w * static_cast<float>(fates->layers.size()),
                                          grid.cell_h * static_cast<float>(fates->num_rows)});
  if (!context.figure && ImGui::IsItemHovered()) point_at(context, fates, grid, pressed);
  // Where rows are low the number of the last one is higher than its row.
  ImGui::Dummy({0, widgets::grid(0.5F)});
}

}  // namespace kvloupe::panels
