// What the forms of row attention share, whatever their type of number: the lists of keys that rows
// walk, the end of a row, and how a form is launched.
#pragma once

#include "core/cuda/row_attention.cuh"
#include "core/cuda/rows.cuh"
#include "core/cuda/shared_memory.cuh"
#include "core/cuda/start.cuh"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>

namespace kvloupe::cuda {

inline constexpr int kThreads = 128;

struct AttendLaunch {
  RowAttention problem;
  int parts = 1;
  bool aligned = false;  // rows of all matrices can be read 16 bytes at a time
  // Of each part [num_rows, head_dim], then [num_rows]; null where there is one part.
  float* part_outputs = nullptr;
  float* part_lses = nullptr;
};

// A kernel that attends, of those there are for a type of number.
struct AttendKernel {
  int rows;              // of a block
  int blocks_at_a_time;  // on a multiprocessor of the smallest of our targets
  cudaError_t (*launch)(const AttendLaunch& launch, int row_tiles, cudaStream_t stream);
};
// For this size of heads, and for so many rows: a decoding step has few.
AttendKernel fp32_kernel(const RowAttention& problem);
AttendKernel half_kernel(const RowAttention& problem);

// The keys of a tile: where they lie (none: -1) and the queries that see them, first and last.
template <int kKeys>
struct TileKeys {
  int source[kKeys], from[kKeys], to[kKeys];
};

__device__ inline KeyView view_of(const RowAttention& p, int index) {
  if (p.views != nullptr) return p.views[index];
  KeyView view;
  view.kv_head = index;
  view.first_row = index * p.most_rows;
  view.num_rows = p.most_rows;
  view.num_queries = p.chunk_len;
  view.past_keys = p.most_keys - p.chunk_len;
  view.own_begin = p.kv_len - p.chunk_len;
  view.past_begin = p.kv_len - p.most_keys;
  return view;
}

// Keys [begin, end) of the view, as far as a tile of rows sees them, in the part of the block.
struct Walk {
  int begin, end;
};
template <int kKeys>
__device__ Walk walk_of(const AttendLaunch& launch, const KeyView& view, int first_row, int rows) {
  const int last_row = std::min(first_row + rows, view.num_rows) - 1;
  const bool in_one_head = first_row / view.num_queries == last_row / view.num_queries;
  const int last_query = in_one_head ? last_row % view.num_queries : view.num_queries - 1;
  const int keys = view.past_keys + last_query + 1;
  const int tiles_of_part = ((keys + kKeys - 1) / kKeys + launch.parts - 1) / launch.parts;
  const int begin = static_cast<int>(blockIdx.z) * tiles_of_part * kKeys;
  return {begin, std::min(keys, begin + tiles_of_part * kKeys)};
}

// By the first threads of the block, for the keys from `first` on.
template <int kKeys>
__device__ void note_keys(const RowAttention& p, const KeyView& view, int first, int end,
                          TileKeys<kKeys>& keys) {
  const int slot = static_cast<int>(threadIdx.x), key = first + slot;
  if (slot >= kKeys) return;
  keys.source[slot] = -1;
  keys.from[slot] = INT_MAX;
  keys.to[slot] = -1;
  if (key >= end) return;
  const int own = key - view.past_keys;
  int position = own >= 0 ? view.own_begin + own : view.past_begin + key;
  if (own < 0 && view.past_list >= 0)
    position = p.table[view.past_list + key / p.block_size] * p.block_size + key % p.block_size;
  const bool for_its_query_alone = own >= 0 && view.shared >= 0 && p.table[view.shared + own] == 0;
  const int last = for_its_query_alone ? own : INT_MAX;
  keys.source[slot] = view.packed_rows >= 0 ? view.packed_rows + key : position;
  keys.from[slot] = std::max(own, 0);
  keys.to[slot] = p.window > 0 ? std::min(last, position - view.own_begin + p.window - 1) : last;
}

// The sink joins the sum of a row.
__device__ inline void add_sink(const RowAttention& p, int row, float& max, float& sum) {
  if (p.sinks == nullptr) return;
  const float sink = p.sinks[row / p.chunk_len], larger = fmaxf(max, sink);
  sum = sum * expf(max - larger) + expf(sink - larger);
  max = larger;
}

// Where a row's results go, of a part or as a whole, its log-sum-exp, and what the sums of exp(score -
// max) v are multiplied by.
struct RowEnd {
  std::int64_t at;
  float lse, factor;
};
__device__ inline RowEnd end_of_row(const AttendLaunch& launch, int row, float max, float sum) {
  const RowAttention& p = launch.problem;
  const bool is_part = launch.parts > 1;
  const float own_max = max;
  if (!is_part) add_sink(p, row, max, sum);
  return {is_part ? static_cast<std::int64_t>(blockIdx.z) * p.num_rows + row : row,
          sum > 0 ? max + logf(sum) : -INFINITY, sum > 0 ? expf(own_max - max) / sum : 0.0f};
}

__device__ inline void write_lse(const AttendLaunch& launch, const RowEnd& end) {
  float* lse = launch.parts > 1 ? launch.part_lses : launch.problem.lse;
  if (lse != nullptr) lse[end.at] = end.lse;
}

template <typename T>
__device__ void write_output(const AttendLaunch& launch, const RowEnd& end, int column,
                             float value) {
  const RowAttention& p = launch.problem;
  if (column >= p.head_dim) return;
  const std::int64_t at = end.at * p.head_dim + column;
  if (launch.parts > 1)
    launch.part_outputs[at] = value;
  else
    static_cast<T*>(p.output)[at] = number_of<T>(value);
}

}  // namespace kvloupe::cuda
