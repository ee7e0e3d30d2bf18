#include "app/widgets/table.h"

#include "core/base/units.h"

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
  ImGui::EndTable();
}

}  // namespace kvloupe::widgets
