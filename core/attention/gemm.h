// The two matrix products of attention, on raw row-major blocks. They go straight to the BLAS
// inside libtorch_cpu: no tensor is made per block, and a block inside a parallel region runs on
// one thread.
#pragma once

#include "core/base/work_count.h"

#include <cstdint>

extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace kvloupe::attention {

// scores [rows, keys] = scale * q [rows, dim] * k [keys, dim]^T, rows of scores `stride` apart.
inline void multiply_qk(const float* q, const float* k, std::int64_t rows, std::int64_t keys,
                        std::int64_t dim, float scale, float* scores, std::int64_t stride) {
  const int m = static_cast<int>(keys), n = static_cast<int>(rows), d = static_cast<int>(dim);
  const int ldc = static_cast<int>(stride);
  const float zero = 0;
  count_keys(rows, keys, dim);
  // BLAS is column-major: a row-major block is its transpose there.
  sgemm_("T", "N", &m, &n, &d, &scale, k, &d, q, &d, &zero, scores, &ldc);
}

// output [rows, dim] = (accumulate ? output : 0) + p [rows, keys] * v [keys, dim], rows of p
// `stride` apart.
inline void multiply_pv(const float* p, const float* v, std::int64_t rows, std::int64_t keys,
                        std::int64_t dim, std::int64_t stride, bool accumulate, float* output) {
  const int m = static_cast<int>(dim), n = static_cast<int>(rows), k = static_cast<int>(keys);
  const int ldb = static_cast<int>(stride);
  const float one = 1, beta = accumulate ? 1 : 0;
  count_values(rows, keys, dim);
  sgemm_("N", "N", &m, &n, &k, &one, v, &m, p, &ldb, &beta, output, &m);
}

}  // namespace kvloupe::attention
