// The first sweep over K: what the softmaxes of rows are shifted and divided by.
#pragma once

#include "core/cuda/probabilities.cuh"

#include <cmath>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

inline constexpr int kTileKeys = 64;
// A multiple of kTileKeys.
inline constexpr int kKeysOfPart = 256;

// The largest logit of some keys of a row, and the sum of exp(logit - largest); -inf and 0 of none.
struct SoftmaxPart {
  float largest = -INFINITY, sum = 0;
};

struct SoftmaxLaunch {
  Probabilities problem;
  bool aligned = false;     // rows of queries and keys can be read 16 bytes at a time
  int rows_of_softmax = 1;  // that share one
  int num_parts = 0;        // of the keys
  int num_key_tiles = 0;    // from that of problem.begin, a multiple of kTileKeys, on
  int sets_of_block = 1;    // of the second sweep
  // Scratch. Of each row [num_parts]; of each softmax; of each set and tile of keys the sums of p along
  // its diagonals, [rows + kTileKeys - 1].
  SoftmaxPart* parts = nullptr;
  float *shifts = nullptr, *weights = nullptr;  // p = exp(logit - shift) weight
  float* diagonals = nullptr;

  constexpr int num_rows() const { return problem.num_sets * problem.rows; }
  constexpr int num_diagonals() const { return problem.rows + kTileKeys - 1; }
};

// shifts and weights of all softmaxes.
cudaError_t launch_softmax(const SoftmaxLaunch& launch, cudaStream_t stream);

}  // namespace kvloupe::cuda
