// Slow oracles of the methods: plain fp64 loops written from the papers, one score per key,
// sharing no arithmetic with core/selection.
#pragma once

#include "tests/selection/sequences.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {

struct Scores {
  std::vector<double> values;        // one per position of `pool`
  std::vector<std::int32_t> pool;    // candidates, ascending
  std::vector<std::int32_t> forced;  // kept whatever they score
  bool probabilities = false;        // how near counts as a tie
};

// Visibility methods: the scores of one KV head's candidates [0, n) at a chunk.
Scores visibility_scores(const Sequence& sequence, const MethodSpec& spec, int chunk, int kv_head,
                         int num_candidates);
// One KV head's keys alive before each chunk, from the first on.
using History = std::vector<std::vector<std::int32_t>>;
// Eviction methods: the scores of `alive[chunk]` and the chunk's keys after the chunk; `budget` keys
// stay.
Scores eviction_scores(const Sequence& sequence, const MethodSpec& spec, int chunk, int kv_head,
                       const History& alive, std::int64_t budget);

// Empty when `selected` is a right choice of `budget` of the pool: forced ones first, then by
// score; among equal scores the smaller position; keys nearer to the cut than the contract's
// tolerance may stand for one another. Else what is wrong.
std::string defect(const Scores& scores, const std::vector<std::int32_t>& selected,
                   std::int64_t budget);

// Methods that keep pages (oracles_pages.cpp): empty when one row of a chunk that is not dense has
// the right pages, whole, and the right count of tokens kept by rule. Else what is wrong.
std::string page_defect(const Sequence& sequence, const MethodSpec& spec, int chunk, int row,
                        const SelectedRow& selected);

}  // namespace kvloupe::selection::testing
