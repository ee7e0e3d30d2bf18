// Scores of keys against a few queries that stand for a chunk (kvloupe::score_keys in
// core/selection/operators/operators.h, which says what the options mean). No Torch header here.
#pragma once

#include "core/cuda/row_products.cuh"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct ScoreKeys {
  NumberType type = NumberType::Fp32;  // of q and k
  // [num_q_heads, queries, head_dim]: heads and queries lie so many numbers apart, channels together.
  const void* q = nullptr;
  std::int64_t q_head_stride = 0, q_row_stride = 0;
  const void* k = nullptr;  // [num_kv_heads, num_keys, head_dim], heads k_head_stride apart
  std::int64_t k_head_stride = 0;
  const std::int32_t* chosen = nullptr;  // [num_q_heads, slots] queries
  int num_q_heads = 0, num_kv_heads = 0;
  int slots = 0;
  int num_keys = 0;
  int head_dim = 0;  // at most kMostChannels
  bool cosine = true, mean_of_queries = false, scores_first = false;
  float* rows = nullptr;    // room for room_for_rows() floats, aligned to 16 bytes
  float* scores = nullptr;  // [num_kv_heads, num_keys]

  constexpr int group() const { return num_q_heads / num_kv_heads; }
  // Rows that stand for the chunk: sets whose scores are averaged, rows of which the largest counts.
  constexpr int sets() const { return scores_first ? group() : 1; }
  constexpr int rows_per_set() const { return mean_of_queries ? 1 : slots; }
  constexpr std::size_t room_for_rows() const {
    return packed_floats(num_kv_heads, sets(), rows_per_set(), head_dim);
  }
};

cudaError_t launch_score_keys(const ScoreKeys& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
