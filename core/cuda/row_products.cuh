// Products of a few rows with every key of their KV head, reduced over the rows: what ranks keys. K is
// read once, whatever the number of rows. Keys of any type, products in fp32, summed over the channels
// in ascending order, so that a key's numbers depend on that key and the rows alone; the same numbers
// give the same bits, whatever their type. No Torch header here.
#pragma once

#include "core/cuda/number_types.h"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

enum class RowReduce {
  None,           // each row's products
  Largest,        // the largest over the rows of each set; NaN where one is
  MeanOfLargest,  // of these the mean over the sets of a KV head, summed in fp64
};

struct RowProducts {
  // Packed: [num_kv_heads, sets, row_blocks(rows_per_set), padded_width(width), kRowsOfBlock], zero in
  // channels and rows that are padding. Aligned to 16 bytes.
  const float* rows = nullptr;
  NumberType type = NumberType::Fp32;  // of keys
  const void* keys =
      nullptr;  // [num_kv_heads, num_keys, width], heads key_head_stride numbers apart
  std::int64_t key_head_stride = 0;
  int num_kv_heads = 0;
  int num_keys = 0;
  int width = 0;  // at most kMostChannels
  int sets = 1;   // of rows, in each KV head
  int rows_per_set = 0;
  RowReduce reduce = RowReduce::None;
  // Divides by the key's length, at least kLeastLength; also where its square is beyond fp32.
  bool by_length = false;
  // None: [num_kv_heads, sets * rows_per_set, num_keys]; Largest: [num_kv_heads, sets, num_keys];
  // MeanOfLargest: [num_kv_heads, num_keys].
  float* results = nullptr;
};

inline constexpr int kMostChannels = 256;
inline constexpr int kRowsOfBlock = 16;
inline constexpr float kLeastLength = 1e-6F;

constexpr int row_blocks(int rows) { return (rows + kRowsOfBlock - 1) / kRowsOfBlock; }
constexpr int padded_width(int width) { return (width + 3) / 4 * 4; }
// Of RowProducts::rows.
constexpr std::size_t packed_floats(int num_kv_heads, int sets, int rows_per_set, int width) {
  return std::size_t(num_kv_heads) * std::size_t(sets) * std::size_t(row_blocks(rows_per_set)) *
         std::size_t(padded_width(width)) * kRowsOfBlock;
}

// cudaErrorInvalidValue for more channels than kMostChannels, or where nothing is asked for.
cudaError_t launch_row_products(const RowProducts& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
