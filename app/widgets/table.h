// A table (core/replay/table.h) as the window and figures draw it: the units stand beside the numbers, and what is not
// known is a faint dash.
#pragma once

#include "app/state/pointer.h"
#include "app/widgets/figure.h"
#include "core/replay/table.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::widgets {

struct TableLook {
  std::vector<float> weights;  // of the columns' widths
  ImGuiTableFlags flags = ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  ImVec2 size = {0, 0};
  bool heads = true;
  // Draws a cell in place of its words; false: it leaves that to the table.
  std::function<bool(std::size_t row, std::size_t column)> draw = nullptr;
  std::function<bool(std::size_t row)> strong = nullptr;  // rows in the strong font
  // Of the words of a cell that is known; null: the colour of text.
  std::function<ImU32(std::size_t row, std::size_t column)> ink = nullptr;
  // Is told the row under the mouse, and the cell; null: nobody is.
  state::Pointer* pointer = nullptr;
};
void table_ui(const Palette& palette, const char* id, const table::Table& table,
              const TableLook& look);

}  // namespace kvloupe::widgets
