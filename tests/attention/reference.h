// Chunk attention written as plain loops in double, straight from the definition: the yardstick of
// the attention tests.
#pragma once

#include "core/attention/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace kvloupe::attention {

struct Problem {
  std::int64_t num_q_heads = 1, num_kv_heads = 1, m = 1, past = 0, dim = 4;
  double magnitude = 1;  // standard deviation of q and k
  std::uint64_t seed = 1;
};

struct Inputs {
  at::Tensor q, k, v;
  double scale = 1;
};

inline Inputs make_inputs(const Problem& p) {
  at::manual_seed(p.seed);
  Inputs in;
  in.q = at::randn({p.num_q_heads, p.m, p.dim}) * p.magnitude;
  in.k = at::randn({p.num_kv_heads, p.past + p.m, p.dim}) * p.magnitude;
  in.v = at::randn({p.num_kv_heads, p.past + p.m, p.dim});
  in.scale = 1 / std::sqrt(static_cast<double>(p.dim));
  return in;
}

struct Reference {
  std::vector<double> output, lse, key_mass;
  std::vector<double> p;  // [num_q_heads, m, T]
};

using MaySee = std::function<bool(std::int64_t, std::int64_t, std::int64_t)>;

// `may_see(q_head, t, j)`: whether row t of the chunk attends to key j.
inline Reference attend_slowly_by_head(const Inputs& in, const MaySee& may_see) {
  const std::int64_t heads = in.q.size(0), m = in.q.size(1), dim = in.q.size(2);
  const std::int64_t kv_heads = in.k.size(0), keys = in.k.size(1);
  const auto q = in.q.accessor<float, 3>(), k = in.k.accessor<float, 3>(),
             v = in.v.accessor<float, 3>();
  Reference ref;
  ref.output.assign(heads * m * dim, 0);
  ref.lse.assign(heads * m, 0);
  ref.key_mass.assign(kv_heads * keys, 0);
  ref.p.assign(heads * m * keys, 0);
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t g = h / (heads / kv_heads);
    for (std::int64_t t = 0; t < m; ++t) {
      double* p = ref.p.data() + (h * m + t) * keys;
      double max = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!may_see(h, t, j)) continue;
        for (std::int64_t c = 0; c < dim; ++c) p[j] += in.scale * q[h][t][c] * k[g][j][c];
        max = std::max(max, p[j]);
      }
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        p[j] = may_see(h, t, j) ? std::exp(p[j] - max) : 0;
        sum += p[j];
      }
      ref.lse[h * m + t] = max + std::log(sum);
      for (std::int64_t j = 0; j < keys; ++j) {
        p[j] /= sum;
        ref.key_mass[g * keys + j] += p[j];
        for (std::int64_t c = 0; c < dim; ++c)
          ref.output[(h * m + t) * dim + c] += p[j] * v[g][j][c];
      }
    }
  }
  return ref;
}

// `may_see(kv_head, t, j)`.
inline Reference attend_slowly(const Inputs& in, const MaySee& may_see) {
  const std::int64_t group = in.q.size(0) / in.k.size(0);
  return attend_slowly_by_head(
      in, [&](std::int64_t h, std::int64_t t, std::int64_t j) { return may_see(h / group, t, j); });
}

inline Reference attend_slowly(const Inputs& in) {
  const std::int64_t past = in.k.size(1) - in.q.size(1);
  return attend_slowly(
      in, [past](std::int64_t, std::int64_t t, std::int64_t j) { return j <= past + t; });
}

inline double largest_error(const at::Tensor& got, const std::vector<double>& want) {
  const at::Tensor flat = got.contiguous();
  if (flat.numel() != static_cast<std::int64_t>(want.size()))
    return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(flat.const_data_ptr<float>()[i]) - want[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

}  // namespace kvloupe::attention
