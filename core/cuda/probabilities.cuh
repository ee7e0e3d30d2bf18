// What rows of queries give the keys of their KV head by softmax, reduced over the rows of each set: the
// operators reduce_probabilities, joint_softmax_sums and columns_and_slashes on a RowSets
// (core/selection/operators/operators.h). Two sweeps over K: one for the largest logit and the sum of each softmax,
// one for p. No logits in global memory. Queries and keys are widened to fp32 when they are multiplied;
// sums over rows are in fp64; the same input gives the same bits. No Torch header here.
#pragma once

#include "core/cuda/number_types.h"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct Probabilities {
  NumberType type = NumberType::Fp32;  // of queries and keys
  const void* queries = nullptr;       // [num_sets, rows, width]
  const void* keys = nullptr;  // [num_kv_heads, num_keys, width], heads key_head_stride apart
  std::int64_t key_head_stride = 0;
  int num_sets = 0, num_kv_heads = 0;  // the sets of a KV head together, as many for each
  int rows = 0;                        // of a set
  int num_keys = 0;                    // at most kMostKeysOfSoftmax
  int width = 0;
  // Row r of every set sees the keys first[r] <= key < visible[r], maybe none. [rows]; first null: from
  // key 0 on.
  const std::int32_t* first = nullptr;
  const std::int32_t* visible = nullptr;
  int begin = 0, end = 0;        // no row sees a key before `begin` or from `end` on
  const float* sinks = nullptr;  // [num_sets, rows] of each row's softmax; null: none
  float scale = 1, softcap = 0;
  float* scratch = nullptr;  // room for scratch_floats(), aligned to 16 bytes

  // Results [num_sets, num_keys], 0 for keys that no row sees: columns, slashes beside them where they
  // are wanted, or joint_sums alone.
  float* columns = nullptr;  // over the rows the sum of p, or the largest one
  bool largest = false;
  // slashes[o]: the sum of p of row r and key visible[r] - 1 - o, where visible[r] = visible[0] + r.
  float* slashes = nullptr;
  // One softmax over all rows and keys of a set, not divided by its total.
  double* joint_sums = nullptr;

  constexpr int sets_of_head() const { return num_sets / num_kv_heads; }
};

inline constexpr int kMostKeysOfSoftmax = 1 << 21;

std::size_t scratch_floats(const Probabilities& problem);
// cudaErrorInvalidValue for more keys than kMostKeysOfSoftmax, or where nothing is asked for.
cudaError_t launch_probabilities(const Probabilities& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
