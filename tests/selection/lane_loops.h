// Slow fp64 loops of lane methods, written from AQUA (Algorithm 1): what fast code is held against.
#pragma once

#include "tests/selection/sequences.h"

#include <vector>

namespace kvloupe::selection::testing {

// `row` [head_dim] in the basis of its KV head: [lane].
std::vector<double> rotated(const Sequence& sequence, int kv_head, const float* row);

// The `kept` lanes of [0, usable) of largest magnitude, or the first ones.
std::vector<int> lanes_by_hand(const std::vector<double>& query, int usable, int kept,
                               bool leading);

// The value `row` [head_dim] as its first `stored` lanes remember it, in the basis of its KV head's
// values: v P P^T, with those columns of P alone.
std::vector<double> remembered(const Sequence& sequence, int kv_head, const double* row,
                               int stored);

// What a lane method prunes, counted by hand for a head of 16 channels.
struct Pruning {
  std::string spec;
  int usable, kept;
  bool leading;
  bool slices_values = false;
};

}  // namespace kvloupe::selection::testing
