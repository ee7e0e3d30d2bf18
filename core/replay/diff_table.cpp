// The rows of a comparison as a table: what `kvloupe diff` prints.
#include "core/replay/diff.h"

#include "core/trace/fields/trace_names.h"

#include <string>
#include <utility>

namespace kvloupe::replay {

using table::Cell;
using table::Table;

std::vector<const DiffRow*> pointers_to(const std::vector<DiffRow>& rows) {
  std::vector<const DiffRow*> pointers;
  for (const DiffRow& row : rows) pointers.push_back(&row);
  return pointers;
}

const char* words_of_axis(trace::RowAxis axis) {
  switch (axis) {
    case trace::RowAxis::KvHead: return "KV head";
    case trace::RowAxis::QHead: return "query head";
    case trace::RowAxis::Subgroup: return "sub-group";
  }
  return "";
}

Table diff_table(const Diff& diff, const std::vector<const DiffRow*>& rows, bool spans) {
  Table table{{"layer", "chunk"}, {}};
  if (diff.two_traces) table.columns.emplace_back("chunk_b", "chunk of B");
  table.columns.emplace_back(std::string(trace::to_text(diff.layout.axis)),
                             words_of_axis(diff.layout.axis));
  table.columns.insert(table.columns.end(), {{"jaccard", "Jaccard", "", 3},
                                             {"both", "both", "", 0},
                                             {"only_a", "only A", "", 0},
                                             {"only_b", "only B", "", 0},
                                             {"mass_a", "mass A", "", 3},
                                             {"mass_b", "mass B", "", 3}});
  if (spans)
    table.columns.insert(table.columns.end(), {{"span_kept_a", "span kept A", "", 3},
                                               {"span_kept_b", "span kept B", "", 3}});
  for (const DiffRow* row : rows) {
    std::vector<Cell>& cells = table.rows.emplace_back(std::vector<Cell>{row->layer, row->chunk});
    if (diff.two_traces) cells.emplace_back(row->chunk_b);
    for (Cell cell : {Cell(row->row), Cell(row->jaccard()), Cell(row->both), Cell(row->only_a),
                      Cell(row->only_b), Cell(row->mass_a), Cell(row->mass_b)})
      cells.push_back(std::move(cell));
    if (!spans) continue;
    cells.emplace_back(row->span_kept_a);
    cells.emplace_back(row->span_kept_b);
  }
  return table;
}

}  // namespace kvloupe::replay
