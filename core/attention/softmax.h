// Vector kernels of the softmax on one row of scores, dispatched at run time to the widest
// instruction set of the machine (AVX2 at least, AVX-512 where present).
#pragma once

#include <cstdint>

namespace kvloupe::attention {

// Rows are padded to this many floats, so that a kernel only ever sees whole vectors.
inline constexpr std::int64_t kRowAlign = 16;
inline std::int64_t padded(std::int64_t count) {
  return (count + kRowAlign - 1) / kRowAlign * kRowAlign;
}

struct RowSoftmax {
  float lse = 0;          // log-sum-exp of the row
  float inverse_sum = 0;  // 1 / sum of the exponentials left in the row
};

// row[i] = exp(row[i] - max). `count` is a multiple of kRowAlign, the row 64-byte aligned; masked
// entries are -inf on entry and 0 on exit. At least one entry is finite.
RowSoftmax softmax_row(float* row, std::int64_t count);

// sums[i] += row[i] * factor.
void add_scaled(const float* row, float factor, float* sums, std::int64_t count);

// row[i] = exp(row[i] - shift).
void exp_row(float* row, std::int64_t count, float shift);

}  // namespace kvloupe::attention
