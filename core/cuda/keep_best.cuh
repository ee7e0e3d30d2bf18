// The ranking rule of core/selection/ranking.h on rows of scores: forced first, then score descending,
// then position ascending; -0 equals +0, a NaN ranks last. By counting alone, so that the result is exact
// and always the same. No Torch header here.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct KeepBest {
  const float* scores = nullptr;  // [rows, count], rows row_stride apart
  std::int64_t row_stride = 0;
  const std::uint8_t* forced = nullptr;  // [count], or null: none is
  int rows = 0;
  int count = 0;
  int kept = 0;                         // at least 1, at most count
  std::int32_t* indices = nullptr;      // [rows, kept], ascending
  std::int64_t* num_forced = nullptr;   // [rows] how many of these are forced
  std::int64_t* ties_at_cut = nullptr;  // [rows] others equal to the last one kept
  void* scratch = nullptr;              // keep_best_scratch() bytes, at a multiple of 16
};

// Bytes on the device that rows need which are too long for one block; 0: none.
std::size_t keep_best_scratch(const KeepBest& problem);

cudaError_t launch_keep_best(const KeepBest& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
