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

// What a lane method prunes, counted by hand for a head of 16 channels.
struct Pruning {
  std::string spec;
  int usable, kept;
  bool leading;
};

}  // namespace kvloupe::selection::testing
