// Chunk attention over a KV cache, on any device of Torch: dense in one pass, and over gathered KVs.
// Shapes: q [num_q_heads, m, head_dim]; k, v [num_kv_heads, T, head_dim]; the m queries are the
// last m positions, so query t sits at position P + t with P = T - m and sees keys 0 .. P + t.
// Query head h reads KV head h / gqa_group_size. fp32, contiguous inside each head; on other devices than
// the CPU also fp16 and bf16, as is the output then, while lse and masses stay fp32.
// `softmax` has the layer's scale and what else shapes its softmax (base/softmax_form.h); a number is
// the scale of a plain one. A window narrows what is said here of visible keys.
// Behind each is an operator (TORCH_LIBRARY kvloupe, operators.h): fused on the CPU, in calls of Torch
// on any other device but where that has a kernel under the same name (core/cuda). Results lie on the
// device of q. Errors: Error{Internal} for shapes that contradict each other.
#pragma once

#include "core/base/softmax_form.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::attention {

struct DenseResult {
  at::Tensor output;  // [num_q_heads, m, head_dim]
  at::Tensor lse;     // [num_q_heads, m] log-sum-exp of the logits over the causal set, and a sink
  at::Tensor key_mass;  // [num_kv_heads, T] sum of p over the chunk's queries and the group's
                        // heads; undefined when not asked for
};

// One pass over K and V: output, row log-sum-exp and column mass come from the same product.
DenseResult dense_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const SoftmaxForm& softmax, bool want_mass);

// Row log-sum-exp and column mass without V (the exact mass oracle; no m x T matrix survives a
// head).
struct MassResult {
  at::Tensor lse;       // [num_q_heads, m]
  at::Tensor key_mass;  // [num_kv_heads, T]
};
MassResult chunk_mass(const at::Tensor& q, const at::Tensor& k, const SoftmaxForm& softmax);

// Which keys a query may attend to besides those of `selected`.
enum class ChunkVisibility {
  OpenChunk,  // the chunk's own keys, causally (budget scope `past`)
  SelfOnly,  // its own key only; `selected` may hold keys of the chunk, used causally (scope `all`)
};

// Softmax over the selected KVs renormalised. `selected[g]`: ascending absolute positions for KV
// head g (past only for OpenChunk). Returns output [num_q_heads, m, head_dim].
at::Tensor gathered_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const SoftmaxForm& softmax,
                                    const std::vector<std::vector<std::int32_t>>& selected,
                                    ChunkVisibility visibility);

// The same where the choice lies on the device, and the host need not know it: `kept` int32
// [num_kv_heads, n], ascending past positions that the chunk's first row sees. OpenChunk.
at::Tensor kept_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const SoftmaxForm& softmax, const at::Tensor& kept);

// The two halves of gathered_chunk_attention, to be timed apart. The tensors lie on the device of the
// cache, the tables on the host.
struct GatheredKeys {
  at::Tensor k,
      v;  // [begin.back(), head_dim] per KV head: the selected past keys, then the chunk's
  std::vector<std::int64_t> begin;      // [num_kv_heads + 1] first row of each KV head
  std::vector<std::int32_t> positions;  // [begin.back()] of each row
  std::vector<std::uint8_t> shared;     // [num_kv_heads, m] 1: later rows of the chunk may see the
                                        // key; empty: all of them are shared (OpenChunk)
};
GatheredKeys gather_keys(const at::Tensor& k, const at::Tensor& v, std::int64_t chunk_len,
                         const std::vector<std::vector<std::int32_t>>& selected,
                         ChunkVisibility visibility);
at::Tensor attend_gathered(const at::Tensor& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax);

// p [rows, T] of one query head, whose sink is in `lse_rows` already: exp(logit - lse), zero where
// masked. The first row stands at `first_position`, and key 0 at position 0.
at::Tensor attention_rows(const at::Tensor& q_head, const at::Tensor& k_head,
                          const SoftmaxForm& softmax, std::int64_t first_position,
                          const at::Tensor& lse_rows);

}  // namespace kvloupe::attention
