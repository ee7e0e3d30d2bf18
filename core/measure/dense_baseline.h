// What a sparse method is compared with: dense attention of the chunk, Torch's own in three forms and
// that of our operators, which a method's dense cells run. The fastest counts. Private to
// core/measure: needs Torch.
#pragma once

#include "core/base/softmax_form.h"
#include "core/measure/gpu_kernels.h"
#include "core/measure/timing.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace kvloupe::measure {

// Everything but the attention itself (masks, expanded K and V, folded queries) is made here,
// outside of any timing.
class DenseBaseline {
 public:
  DenseBaseline(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const SoftmaxForm& softmax);

  // "sdpa gqa": scaled_dot_product_attention with enable_gqa; "sdpa expanded": on K and V expanded
  // to the query heads; "sdpa folded": the group's heads folded into query rows; "kvloupe": our
  // operator; alone where a softcap or a sink, which Torch's do not know, enters the softmax. A window
  // is a mask for Torch's, over the keys that some row sees. On a GPU its kernels by name too
  // (gpu_kernels.h), but where a window hides keys. The parts keep a reference to this object.
  std::vector<TimedPart> parts() const;

  // Results of the variants as [num_q_heads, m, head_dim], in the type of q, for tests.
  at::Tensor run_gqa() const;
  at::Tensor run_expanded() const;
  at::Tensor run_folded() const;
  at::Tensor run_own() const;

 private:
  bool is_plain() const;

  SoftmaxForm softmax_;
  std::int64_t num_q_heads_, chunk_len_, head_dim_;
  at::Tensor q_, k_, v_;                // [1, heads, rows, head_dim]; keys that some row sees
  at::Tensor whole_k_, whole_v_;        // [num_kv_heads, T, head_dim]
  at::Tensor expanded_k_, expanded_v_;  // [1, num_q_heads, T, head_dim]
  at::Tensor folded_q_;                 // [1, num_kv_heads, group * m, head_dim]
  at::Tensor mask_, folded_mask_;       // [m, T], [group * m, T]: 0 or -inf
  std::vector<NamedAttention> gpu_kernels_;
};

// The part of [first, first + count) with the smallest median.
std::size_t fastest_of(const RoundTimes& times, std::size_t first, std::size_t count);

}  // namespace kvloupe::measure
