// Loops that several of the slow oracles share.
#pragma once

#include "tests/selection/oracles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kvloupe::selection::testing {

using Row = std::vector<double>;

inline Row as_row(const float* values, int dim) { return Row(values, values + dim); }

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double length(const Row& a) { return std::sqrt(dot(a, a)); }

inline double cosine(const Row& a, const Row& b, double eps) {
  return dot(a, b) / (std::max(length(a), eps) * std::max(length(b), eps));
}

inline std::vector<std::int32_t> range(int begin, int end) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

// p of one query row over the given keys of a KV head, those after position `last` masked.
std::vector<double> softmax_of(const Sequence& s, const Row& query, int kv_head,
                               const std::vector<std::int32_t>& keys, int last);

// p of one query of the text over the given keys, causally.
inline std::vector<double> softmax_row(const Sequence& s, int head, int query,
                                       const std::vector<std::int32_t>& keys) {
  return softmax_of(s, as_row(s.query(head, query), s.shape.head_dim), head / s.gqa_group_size(),
                    keys, query);
}

// Votes of the chunk's last rows for the first `scored` of `keys`.
std::vector<double> snapkv_values(const Sequence& s, const MethodSpec& spec,
                                  const trace::ChunkInfo& span, int kv_head,
                                  const std::vector<std::int32_t>& keys, std::size_t scored);

std::vector<double> keydiff_values(const Sequence& s, int kv_head,
                                   const std::vector<std::int32_t>& keys);

// The methods that score by logits or attention of the chunk's queries: whether this is one, whether
// its scores are probabilities, and the scores of [0, T) (oracles_logits.cpp).
bool has_logit_values(const MethodSpec& spec);
bool has_probabilities(const MethodSpec& spec);
std::vector<double> logit_values(const Sequence& s, const MethodSpec& spec,
                                 const trace::ChunkInfo& span, int kv_head);

}  // namespace kvloupe::selection::testing
