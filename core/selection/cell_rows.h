// Raw rows of a cell's q and k, for the kernels.
#pragma once

#include "core/selection/kernels.h"
#include "core/selection/selector.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
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

// The positions [begin, end).
inline std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(begin));
  return positions;
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

// Query rows, of any heads, with the keys that they see of a list of keys.
struct ChunkRows {
  std::vector<const float*> pointers;
  std::vector<std::int64_t> visible;  // the row sees the first so many keys of the list, less
  std::vector<std::int64_t> first;    // those before this one; empty without a window
  std::vector<float> sinks;           // of its head; empty without sinks

  void add(const float* row, const SoftmaxForm& form, std::int64_t q_head, std::int64_t first_key,
           std::int64_t num_visible) {
    pointers.push_back(row);
    visible.push_back(num_visible);
    if (form.window > 0) first.push_back(first_key);
    if (!form.sink_logits.empty()) sinks.push_back(form.sink_logits[q_head]);
  }
  RowSoftmax softmax(const SoftmaxForm& form) const {
    RowSoftmax result(form.scale);
    result.softcap = form.softcap;
    result.first = first;
    result.sinks = sinks;
    return result;
  }
};

// How many of the keys at `positions`, ascending, lie before what the query at `position` sees.
inline std::int64_t num_hidden(std::span<const std::int32_t> positions, const SoftmaxForm& form,
                               std::int64_t position) {
  if (form.window == 0) return 0;
  return std::lower_bound(positions.begin(), positions.end(), form.first_visible(position)) -
         positions.begin();
}

// `count` rows of the chunk at even distances, floor((2i+1) m / (2 count)); all if there are no
// more.
inline std::vector<std::int32_t> evenly_spaced_rows(std::int64_t count, std::int64_t chunk_len) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < std::min(count, chunk_len); ++i)
    rows.push_back(
        static_cast<std::int32_t>(count >= chunk_len ? i : (2 * i + 1) * chunk_len / (2 * count)));
  return rows;
}

inline std::vector<std::int32_t> all_rows(const Cell& cell) { return range(0, cell.chunk_len); }

// The chunk's last `count` rows; all if there are no more.
inline std::vector<std::int32_t> latest_rows(std::int64_t count, std::int64_t chunk_len) {
  std::vector<std::int32_t> rows;
  for (std::int64_t row = std::max<std::int64_t>(0, chunk_len - count); row < chunk_len; ++row)
    rows.push_back(static_cast<std::int32_t>(row));
  return rows;
}

// These rows of the chunk in one query head, over all keys of the cell.
inline ChunkRows chunk_rows(const Cell& cell, std::int64_t q_head,
                            std::span<const std::int32_t> rows) {
  ChunkRows result;
  for (const std::int32_t row : rows) {
    const std::int64_t position = cell.past_len + row;
    result.add(query_row(cell, q_head, row), cell.softmax, q_head,
               cell.softmax.first_visible(position), position + 1);
  }
  return result;
}

// For Selector::sampled_rows(), where the heads do not differ.
inline std::vector<std::vector<std::int32_t>> in_every_head(const Cell& cell,
                                                            std::vector<std::int32_t> rows) {
  return std::vector(static_cast<std::size_t>(cell.num_q_heads()), std::move(rows));
}

}  // namespace kvloupe::selection
