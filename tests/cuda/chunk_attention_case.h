// A case of chunk attention, and what it is by the definition in fp64: for the kernels in the emulator
// and on a GPU. Free of Torch and of any test library.
#pragma once

#include "core/cuda/chunk_attention.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvloupe::cuda::testing {

struct Shape {
  int kv_heads, group, chunk_len, past, dim;
  int kv_len() const { return past + chunk_len; }
  int rows() const { return group * chunk_len; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(dim)); }
  std::size_t num_q() const { return count(rows(), dim); }
  std::size_t num_k() const { return count(kv_len(), dim); }
  std::size_t num_lse() const { return count(rows(), 1); }
  std::size_t num_mass() const { return count(kv_len(), 1); }
  std::size_t count(int rows_of_head, int columns) const {
    return static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(rows_of_head) *
           static_cast<std::size_t>(columns);
  }
};

inline std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Laid out as chunk_attention.cuh says, heads without gaps.
struct Inputs {
  std::vector<float> q, k, v;
  explicit Inputs(const Shape& shape)
      : q(random_numbers(shape.num_q(), 1)),
        k(random_numbers(shape.num_k(), 2)),
        v(random_numbers(shape.num_k(), 3)) {}
};

// All of the problem but its pointers.
inline ChunkAttention problem_of(const Shape& shape) {
  ChunkAttention problem;
  problem.k_head_stride = problem.v_head_stride = std::int64_t{shape.kv_len()} * shape.dim;
  problem.num_kv_heads = shape.kv_heads;
  problem.rows = shape.rows();
  problem.chunk_len = shape.chunk_len;
  problem.kv_len = shape.kv_len();
  problem.head_dim = shape.dim;
  problem.scale = shape.scale();
  return problem;
}

struct Results {
  std::vector<float> output, lse, key_mass;
};

// Largest differences from the definition; infinite where a number is none.
struct Errors {
  double output = 0, lse = 0, key_mass = 0;
};

namespace detail {

inline void note(double got, double want, double& largest) {
  const double error = std::abs(got - want);
  largest = std::isfinite(error) ? std::max(largest, error) : INFINITY;
}

// The row's probabilities; its log-sum-exp through `lse`.
inline std::vector<double> probabilities(const Shape& shape, const Inputs& in, int head, int row,
                                         double& lse) {
  const int seen = shape.past + row % shape.chunk_len + 1, dim = shape.dim;
  std::vector<double> p(static_cast<std::size_t>(seen));
  double sum = 0;
  for (int key = 0; key < seen; ++key) {
    const float* q = in.q.data() + (static_cast<std::size_t>(head) * shape.rows() + row) * dim;
    const float* k = in.k.data() + (static_cast<std::size_t>(head) * shape.kv_len() + key) * dim;
    double s = 0;
    for (int c = 0; c < dim; ++c) s += static_cast<double>(q[c]) * static_cast<double>(k[c]);
    p[static_cast<std::size_t>(key)] = std::exp(s * static_cast<double>(shape.scale()));
    sum += p[static_cast<std::size_t>(key)];
  }
  for (double& each : p) each /= sum;
  lse = std::log(sum);
  return p;
}

}  // namespace detail

inline Errors errors_of(const Shape& shape, const Inputs& in, const Results& got) {
  Errors errors;
  for (int head = 0; head < shape.kv_heads; ++head) {
    std::vector<double> mass(static_cast<std::size_t>(shape.kv_len()), 0);
    for (int row = 0; row < shape.rows(); ++row) {
      const std::size_t at = static_cast<std::size_t>(head) * shape.rows() + row;
      double lse = 0;
      const std::vector<double> p = detail::probabilities(shape, in, head, row, lse);
      detail::note(got.lse[at], lse, errors.lse);
      for (std::size_t key = 0; key < p.size(); ++key) mass[key] += p[key];
      for (int c = 0; c < shape.dim; ++c) {
        double value = 0;
        for (std::size_t key = 0; key < p.size(); ++key)
          value +=
              p[key] *
              static_cast<double>(
                  in.v[(static_cast<std::size_t>(head) * shape.kv_len() + key) * shape.dim + c]);
        detail::note(got.output[at * shape.dim + c], value, errors.output);
      }
    }
    for (std::size_t key = 0; key < mass.size(); ++key)
      detail::note(got.key_mass[static_cast<std::size_t>(head) * shape.kv_len() + key], mass[key],
                   errors.key_mass);
  }
  return errors;
}

// What fp32 sums over some thousand keys may be off.
inline bool are_small(const Errors& errors) {
  return errors.output < 2e-5 && errors.lse < 2e-5 && errors.key_mass < 1e-4;
}

// Rows and keys that fill tiles and that do not, one query, no past, each size of head.
inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{2, 3, 40, 170, 64},
                                         {1, 1, 32, 0, 16},
                                         {1, 8, 1, 77, 128},
                                         {1, 2, 9, 30, 200},
                                         {1, 1, 33, 95, 256}};
  return all;
}

}  // namespace kvloupe::cuda::testing
