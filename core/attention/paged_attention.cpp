// The typed functions before the operators on blocks, and what they refuse.
#include "core/attention/paged_attention.h"

#include "core/attention/operators.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

namespace kvloupe::attention {
namespace {

std::int64_t num_blocks(std::int64_t tokens, std::int64_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

void check_tables(const BlockTables& tables, std::int64_t num_q_heads, std::int64_t num_kv_heads,
                  std::int64_t kv_len) {
  KVLOUPE_CHECK(tables.page_size > 0 && tables.q_heads_per_row > 0);
  KVLOUPE_CHECK(num_q_heads / num_kv_heads % tables.q_heads_per_row == 0);
  const std::int64_t rows = num_q_heads / tables.q_heads_per_row;
  const std::int64_t pages = num_blocks(kv_len, tables.page_size);
  KVLOUPE_CHECK(tables.pages_per_head >= pages);
  KVLOUPE_CHECK(tables.num_rows() == rows && tables.kv_indptr.front() == 0);
  KVLOUPE_CHECK(tables.kv_indptr.back() == static_cast<std::int64_t>(tables.kv_indices.size()));
  KVLOUPE_CHECK(std::is_sorted(tables.kv_indptr.begin(), tables.kv_indptr.end()));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = tables.kv_indices.begin() + tables.kv_indptr[row];
    const auto last = tables.kv_indices.begin() + tables.kv_indptr[row + 1];
    if (first == last) continue;
    KVLOUPE_CHECK(std::adjacent_find(first, last, std::greater_equal<>()) == last);
    const std::int64_t page_0 = row * num_kv_heads / rows * tables.pages_per_head;
    KVLOUPE_CHECK(*first >= page_0 && *(last - 1) < page_0 + pages);
  }
}

void check_mask(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k,
                std::int64_t block_size) {
  KVLOUPE_CHECK(block_size > 0 && mask.dim() == 3 && mask.scalar_type() == at::kByte);
  KVLOUPE_CHECK(mask.device().is_cpu() && mask.is_contiguous());
  const std::int64_t blocks = num_blocks(k.size(1), block_size);
  const std::int64_t first = (k.size(1) - q.size(1)) / block_size;
  KVLOUPE_CHECK(mask.size(0) == q.size(0));
  KVLOUPE_CHECK(mask.size(1) == blocks - first && mask.size(2) == blocks);
  const std::uint8_t* row = mask.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < mask.size(0) * mask.size(1); ++i, row += blocks) {
    const std::int64_t own = first + i % mask.size(1);
    KVLOUPE_CHECK(row[own] != 0);
    KVLOUPE_CHECK(std::all_of(row + own + 1, row + blocks, [](auto bit) { return bit == 0; }));
  }
}

}  // namespace

at::Tensor paged_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const SoftmaxForm& softmax, const BlockTables& tables) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  check_tables(tables, q.size(0), k.size(0), k.size(1));
  static const auto run = find_operator<op::PagedAttention>("kvloupe::paged_attention");
  return run.call(q, k, v, packed(softmax), tables.page_size, tables.q_heads_per_row,
                  tables.pages_per_head, on_host(tables.kv_indptr), on_host(tables.kv_indices));
}

at::Tensor block_sparse_chunk_attention(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const SoftmaxForm& softmax,
                                        std::int64_t block_size, const at::Tensor& mask) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  check_mask(mask, q, k, block_size);
  static const auto run =
      find_operator<op::BlockSparseAttention>("kvloupe::block_sparse_attention");
  return run.call(q, k, v, packed(softmax), block_size, mask);
}

}  // namespace kvloupe::attention
