// The budget of a method that is given none (docs/metrics.md, "How much is kept").
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvloupe::selection {

// Of a SPEC.
inline constexpr std::int64_t kDefaultBudget = 1024;

// Where the program itself chooses the method, for a trace of so many tokens: all of a trace that is
// no longer than the default would be kept.
inline constexpr std::int64_t default_budget(std::int64_t num_tokens) {
  return num_tokens > kDefaultBudget ? kDefaultBudget : std::max<std::int64_t>(16, num_tokens / 8);
}

}  // namespace kvloupe::selection
