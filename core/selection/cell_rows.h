// Rows of a cell's queries and keys as the operators take them, and positions as methods make them.
#pragma once

#include "core/selection/operators/operators.h"
#include "core/selection/operators/parallel.h"
#include "core/selection/selector.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace kvloupe::selection {

// The positions [begin, end).
inline std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(begin));
  return positions;
}

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
  return range(std::max<std::int64_t>(0, chunk_len - count), chunk_len);
}

// For Selector::sampled_rows(), where the heads do not differ.
inline std::vector<std::vector<std::int32_t>> in_every_head(const Cell& cell,
                                                            const std::vector<std::int32_t>& rows) {
  return std::vector(static_cast<std::size_t>(cell.num_q_heads()), rows);
}

// Numbers of the host as an int32 tensor of this shape on a device.
at::Tensor on_device(const std::vector<std::vector<std::int32_t>>& rows, c10::Device device);
at::Tensor on_device(std::span<const std::int32_t> values, c10::Device device);
// The numbers of a tensor of this type, row-major, on the host.
template <typename T>
std::vector<T> on_host(const at::Tensor& tensor);
// Of several tensors of one device, for which the host waits once.
template <typename T>
std::vector<std::vector<T>> all_on_host(const std::vector<at::Tensor>& tensors);
// Of int32 [R, n], row by row.
std::vector<std::vector<std::int32_t>> rows_on_host(const at::Tensor& tensor);

// A query head's attention over all keys of the cell, [m, kv_len]; 0 where a row does not see the key.
at::Tensor attention_of_head(const Cell& cell, std::int64_t q_head);

// These rows of queries [H, m, W]: [H, rows, W].
at::Tensor take_rows(const at::Tensor& queries, std::span<const std::int32_t> rows);

// A set of `queries` [heads, R, W] for each query head from first_q_head on, with the softmax of its
// layer; how far they see is left to say.
RowSets sets_of(const SoftmaxForm& form, at::Tensor queries, std::int64_t first_q_head);
// Rows of the chunk, a set for each query head, over all keys of the cell. `queries` [H, m, W]: the
// cell's, or what stands for them.
RowSets sets_over_cell(const Cell& cell, const at::Tensor& queries,
                       std::span<const std::int32_t> rows);
// Rows of the chunk, a set for each query head of one KV head, over the keys at `pool`, ascending,
// which ends with the chunk.
RowSets sets_over_pool(const Cell& cell, std::int64_t kv_head, std::span<const std::int32_t> rows,
                       std::span<const std::int32_t> pool);
// The rows of all sets as those of one, whose sums run over all of them.
RowSets in_one_set(RowSets sets);

// The keys of one KV head at `positions`, ascending: [1, positions, head_dim].
at::Tensor gather_keys(const Cell& cell, std::int64_t kv_head,
                       std::span<const std::int32_t> positions);

// Rows of the selection from what was kept of [0, n); none is forced.
std::vector<SelectedRow> rows_of(const KeptRows& kept);
// The same of several, one after the other; the host waits once. An empty row where nothing was asked (undefined).
std::vector<SelectedRow> rows_of(const std::vector<KeptRows>& kept);
// Rows that keep different numbers of keys: int32 order [R, n] best first, int64 counts [R] of those that are
// kept, at most n, int64 ties [R] (ties_at_cut). The host waits once.
std::vector<SelectedRow> rows_of(const at::Tensor& order, const at::Tensor& counts,
                                 const at::Tensor& ties);

}  // namespace kvloupe::selection
