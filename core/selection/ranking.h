// The ranking rule, the only place where scores become an order: forced first, then score
// descending, then position ascending. Scores are fp32, -0 equals +0, a NaN ranks last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::selection {

// Maps a score to an integer that grows with its rank value: larger is kept first.
std::uint32_t rank_value(float score);

struct Kept {
  std::vector<std::int32_t> indices;  // ascending
  std::int64_t forced = 0;            // how many of them are forced
  // Candidates left out whose score equals that of the last one kept (and are forced if it is).
  std::int64_t ties_at_cut = 0;
};

// The best min(budget, n) of n candidates; O(n). `forced`: empty, or one byte per candidate.
Kept keep_best(std::span<const float> scores, std::int64_t budget,
               std::span<const std::uint8_t> forced = {});

// The indices of the best min(count, n), best first.
std::vector<std::int32_t> ranked(std::span<const float> scores, std::int64_t count);

}  // namespace kvloupe::selection
