#include "core/selection/blocks/page_tables.h"

#include <algorithm>
#include <span>

namespace kvloupe::selection {
namespace {

// Appends the ids of the pages that `positions` (ascending) are made of; false if one is not whole. Of
// the page that a window's end cuts, the rest counts as whole: no row sees what is missing.
bool append_pages(std::span<const std::int32_t> positions, std::int64_t page_size,
                  std::int64_t first_candidate, std::int64_t past_len, std::int64_t first_id,
                  std::vector<std::int32_t>* ids) {
  const auto count = static_cast<std::int64_t>(positions.size());
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t page = positions[i] / page_size;
    const std::int64_t begin = std::max(first_candidate, page * page_size),
                       end = std::min((page + 1) * page_size, past_len);
    const std::int64_t last = i + end - begin - 1;
    // Positions are distinct, so the first and the last in place leave no gap between them.
    if (positions[i] != begin || begin >= past_len) return false;
    if (last >= count || positions[last] != end - 1) return false;
    ids->push_back(static_cast<std::int32_t>(first_id + page));
    i = last + 1;
  }
  return true;
}

}  // namespace

std::optional<attention::BlockTables> page_tables(const MethodSpec& spec, const RowLayout& layout,
                                                  const Cell& cell,
                                                  const CellSelection& selection) {
  attention::BlockTables tables;
  tables.page_size = spec.traits().page_size;
  if (tables.page_size == 0) return std::nullopt;
  tables.q_heads_per_row = layout.q_heads_per_row;
  tables.pages_per_head = (cell.kv_len() + tables.page_size - 1) / tables.page_size;
  tables.kv_indptr = {0};
  for (std::size_t row = 0; row < selection.rows.size(); ++row) {
    const std::int64_t q_head = static_cast<std::int64_t>(row) * layout.q_heads_per_row;
    const std::int64_t first_id = q_head / cell.gqa_group_size() * tables.pages_per_head;
    if (!append_pages(selection.rows[row].positions, tables.page_size, cell.first_candidate(),
                      cell.past_len, first_id, &tables.kv_indices))
      return std::nullopt;
    tables.kv_indptr.push_back(static_cast<std::int32_t>(tables.kv_indices.size()));
  }
  return tables;
}

}  // namespace kvloupe::selection
