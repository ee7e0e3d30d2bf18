// StreamingLLM's positions=reassigned: attention sees the kept keys at the positions they have
// inside the cache, not in the text (Xiao et al. 2023, section 3.2).
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

// The keys that attention is computed with: `k` itself, except for positions=reassigned, where the
// kept past keys are rotated so that they end right before the chunk (only distances matter, so the
// chunk stays where it is). k [num_kv_heads, T, head_dim]; selected: past positions per KV head.
// Throws Error{Input} when the model's rotary scaling is one that cannot be redone here.
at::Tensor attended_keys(const MethodSpec& spec, const trace::ModelInfo& model, int layer,
                         const at::Tensor& k, std::int64_t past_len,
                         const std::vector<std::vector<std::int32_t>>& selected);

}  // namespace kvloupe::selection
