// Which tokens of two prompts are the same ones. Free of Torch.
#pragma once

#include "core/base/cancel.h"

#include <cstdint>
#include <vector>

namespace kvloupe::replay {

// A longest common subsequence of token ids: of each token of `a` its partner in `b`, or -1. Partners
// ascend. Memory grows with the lengths' sum, time with their product over 64: prompts that share
// nothing cost no more than others do.
std::vector<std::int32_t> align_tokens(const std::vector<std::int32_t>& a,
                                       const std::vector<std::int32_t>& b,
                                       const CancelToken& cancel);

}  // namespace kvloupe::replay
