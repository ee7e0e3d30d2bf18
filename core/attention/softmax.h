// Vector kernels of the softmax on one row of scores, dispatched at run time to the widest
// instruction set of the machine (AVX2 at least, AVX-512 where present).
#pragma once

#include <cstdint>
#include <limits>

namespace kvloupe::attention {

// Rows are padded to this many floats, so that a kernel only ever sees whole vectors.
inline constexpr std::int64_t kRowAlign = 16;
inline std::int64_t padded(std::int64_t count) {
  return (count + kRowAlign - 1) / kRowAlign * kRowAlign;
}

// A row's softmax while its scores come tile by tile.
struct RowState {
  float max = -std::numeric_limits<float>::infinity();  // of the scores so far
  float sum = 0;                                        // of exp(score - max) so far

  float lse() const;
};

// row[i] = exp(row[i] - state->max) with the state brought up to date by this tile. Returns
// exp(old max - new max): what earlier exponentials of the row must be multiplied by. `count` is a
// multiple of kRowAlign, the row 64-byte aligned; masked entries are -inf on entry and 0 on exit.
float softmax_tile(float* row, std::int64_t count, RowState* state);

// sums[i] += row[i] * factor.
void add_scaled(const float* row, float factor, float* sums, std::int64_t count);

// row[i] = softcap * tanh(row[i] / softcap).
void cap_row(float* row, std::int64_t count, float softcap);

// row[i] = exp(row[i] - shift).
void exp_row(float* row, std::int64_t count, float shift);

}  // namespace kvloupe::attention
