// Raw rows of a cell's q and k, for the kernels.
#pragma once

#include "core/selection/selector.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kvloupe::selection {

inline const float* query_row(const Cell& cell, std::int64_t q_head, std::int64_t row) {
  return cell.q.const_data_ptr<float>() + q_head * cell.q.stride(0) + row * cell.q.stride(1);
}

// [kv_len, head_dim], contiguous.
inline const float* keys_of(const Cell& cell, std::int64_t kv_head) {
  return cell.k.const_data_ptr<float>() + kv_head * cell.k.stride(0);
}

// Runs work(item) for every item of [0, count), on several threads where it pays:
// operations_per_item is a rough count of multiplications.
template <typename Work>
void for_each_item(std::int64_t count, std::int64_t operations_per_item, const Work& work) {
  // Some 50 us of work for a thread: waking one for less costs more, above all on a busy machine.
  constexpr std::int64_t kOperationsPerThread = 1 << 21;
  const std::int64_t grain =
      kOperationsPerThread / (operations_per_item > 0 ? operations_per_item : 1) + 1;
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) work(item);
  });
}

struct ChunkRows {
  std::vector<const float*> pointers;
  std::vector<std::int64_t> visible;  // keys of [0, kv_len) that the row sees
};

// `count` rows of the chunk at even distances, floor((2i+1) m / (2 count)); all if there are no
// more.
inline std::vector<std::int32_t> evenly_spaced_rows(std::int64_t count, std::int64_t chunk_len) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < std::min(count, chunk_len); ++i)
    rows.push_back(
        static_cast<std::int32_t>(count >= chunk_len ? i : (2 * i + 1) * chunk_len / (2 * count)));
  return rows;
}

// The chunk's last `count` rows; all if there are no more.
inline std::vector<std::int32_t> latest_rows(std::int64_t count, std::int64_t chunk_len) {
  std::vector<std::int32_t> rows;
  for (std::int64_t row = std::max<std::int64_t>(0, chunk_len - count); row < chunk_len; ++row)
    rows.push_back(static_cast<std::int32_t>(row));
  return rows;
}

// These rows of the chunk in one query head.
inline ChunkRows chunk_rows(const Cell& cell, std::int64_t q_head,
                            std::span<const std::int32_t> rows) {
  ChunkRows result;
  for (const std::int32_t row : rows) {
    result.pointers.push_back(query_row(cell, q_head, row));
    result.visible.push_back(cell.past_len + row + 1);
  }
  return result;
}

// For Selector::sampled_rows(), where the heads do not differ.
inline std::vector<std::vector<std::int32_t>> in_every_head(const Cell& cell,
                                                            std::vector<std::int32_t> rows) {
  return std::vector(static_cast<std::size_t>(cell.num_q_heads()), std::move(rows));
}

}  // namespace kvloupe::selection
