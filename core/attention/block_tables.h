// Block tables of paged attention: which pages of a KV cache each row of query heads attends to.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe::attention {

// Pages (blocks) of a head-major cache: page j of a KV head holds its positions
// [j * page_size, (j + 1) * page_size), the last one maybe fewer, and has the id
// kv_head * pages_per_head + j. A row is a run of query heads that share one table: those of a KV
// head, a sub-group of them, or a single one.
struct BlockTables {
  std::int64_t page_size = 0;
  std::int64_t q_heads_per_row = 0;
  std::int64_t pages_per_head = 0;
  std::vector<std::int32_t> kv_indptr;   // [rows + 1] where the ids of each row begin
  std::vector<std::int32_t> kv_indices;  // page ids, ascending in each row

  std::int64_t num_rows() const { return static_cast<std::int64_t>(kv_indptr.size()) - 1; }
};

}  // namespace kvloupe::attention
