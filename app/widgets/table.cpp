#include "app/widgets/table.h"

#include "core/base/units.h"

#include <imgui_internal.h>

#include <cstdint>
#include <variant>

namespace kvloupe::widgets {
namespace {

std::string text_of(const table::Cell& cell, const table::Column& column) {
  if (std::holds_alternative<table::Cell::Unknown>(cell.value())) return "\u2013";
  if (const auto* const count = std::get_if<std::int64_t>(&cell.value()))
    return format_count(*count);
  const std::string words = words_of(cell, column);
  return cell.is_number() && !column.unit.empty() ? words + " " + column.unit : words;
}

void cell_ui(const Palette& palette, const table::Table& table, const TableLook& look,
             std::size_t row, std::size_t column) {
  if (look.draw != nullptr && look.draw(row, column)) return;
  const table::Cell& cell = table.rows[row][column];
  const std::string text = text_of(cell, table.columns[column]);
  const ImU32 ink = cell.is_empty() ? palette.faint
                    : look.ink      ? look.ink(row, column)
                                    : palette.text;
  text_colored(ink, cell.is_number() ? text : elided(text, ImGui::GetContentRegionAvail().x));
}

// What the mouse was over in the frame before, which is what ImGui knows of a table.
void point_at(state::Pointer& pointer, const table::Table& table, bool heads) {
  const int row = ImGui::TableGetHoveredRow() - (heads ? 1 : 0);
  const int column = ImGui::TableGetHoveredColumn();
  if (row < 0 || row >= static_cast<int>(table.rows.size())) return;
  if (column < 0 || column >= static_cast<int>(table.columns.size())) return;
  const auto& cells = table.rows[static_cast<std::size_t>(row)];
  const auto text = [&](std::size_t i) { return text_of(cells[i], table.columns[i]); };
  state::Pointed pointed;
  for (std::size_t i = 0; i < cells.size(); ++i) pointed.row += (i == 0 ? "" : "\t") + text(i);
  const auto here = static_cast<std::size_t>(column);
  const std::string& title = table.columns[here].title;
  pointed.words = (title.empty() ? "" : title + ": ") + text(here);
  pointer.at(std::move(pointed));
}

}  // namespace

void table_ui(const Palette& palette, const char* id, const table::Table& table,
              const TableLook& look) {
  const auto num_columns = static_cast<int>(table.columns.size());
  const ImGuiTableFlags flags = ImGuiTableFlags_BordersInnerH | look.flags;
  if (!ImGui::BeginTable(id, num_columns, flags, look.size)) return;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    ImGui::TableSetupColumn(table.columns[i].title.c_str(), ImGuiTableColumnFlags_WidthStretch,
                            look.weights.at(i));
  if (look.heads) ImGui::TableHeadersRow();
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    ImGui::TableNextRow();
    const bool strong = look.strong && look.strong(row);
    const FontScope font(strong ? fonts().strong : fonts().body);
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      ImGui::TableNextColumn();
      cell_ui(palette, table, look, row, column);
    }
  }
  if (look.pointer != nullptr) point_at(*look.pointer, table, look.heads);
  ImGui::EndTable();
}

}  // namespace kvloupe::widgets
