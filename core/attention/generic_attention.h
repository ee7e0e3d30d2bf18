// The operators in calls of Torch, for tensors of any device: what runs where the device has no kernel
// of its own. As much work as the selection has, not the fastest form of it. Computed in fp32, to which
// keys and values of another type are brought KV head by KV head. The largest tensor
// that is made is one of [query heads of a KV head, m, keys that they attend to] probabilities; nothing
// that lies on a device is read by the host. Shapes were checked before.
#pragma once

#include "core/attention/cpu_attention.h"
#include "core/attention/operators.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace kvloupe::attention::generic {

// The lane tiles of gathered keys are rows of all lanes here.
#define KVLOUPE_DECLARE_GENERIC(name, schema) decltype(cpu::name) name;
KVLOUPE_ATTENTION_OPERATORS(KVLOUPE_DECLARE_GENERIC)
#undef KVLOUPE_DECLARE_GENERIC

// What all of them are built from.

// fp32.
struct Probabilities {
  at::Tensor p;    // [query heads, m, keys]
  at::Tensor lse;  // [query heads, m]
};

// The softmax of a layer on the device of its queries.
class DeviceSoftmax {
 public:
  DeviceSoftmax(PackedSoftmax packed, const at::Tensor& queries);

  std::int64_t first_visible(std::int64_t position) const { return form_.first_visible(position); }
  bool has_window() const { return form_.window > 0; }

  // s of queries [.., width] and keys [n, width], as if all keys were seen. fp32.
  at::Tensor logits(const at::Tensor& q, const at::Tensor& k) const;

  // bool [m, c]: which of the last c keys a row does not see; all rows see those before. The last m of
  // the keys are those of the rows themselves. `positions` [n] of all keys are asked for only where
  // there is a window, `shared` [m] as in GatheredKeys, or empty.
  at::Tensor hidden(const at::Tensor& positions, const at::Tensor& shared,
                    std::int64_t chunk_len) const;

  // Of the queries [heads, m, width] of the query heads from `first_head` on.
  Probabilities operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                           std::int64_t first_head) const;

 private:
  SoftmaxForm form_;
  at::TensorOptions options_;
  at::Tensor sinks_;  // [num_q_heads, 1, 1]; undefined: none
};

// Output [query heads, m, head_dim] of probabilities and values [keys, head_dim], in the type of these.
at::Tensor weighted(const at::Tensor& p, const at::Tensor& v);

// Positions [begin, end) on the device of `like`.
at::Tensor positions_of(std::int64_t begin, std::int64_t end, const at::Tensor& like);

// What a chunk q [num_q_heads, m, width] attends to whole.
struct Cache {
  std::int64_t num_kv_heads = 0, kv_len = 0;
  // Keys of KV head g from position `first` on: [kv_len - first, width].
  std::function<at::Tensor(std::int64_t g, std::int64_t first)> keys;
  at::Tensor v;  // [num_kv_heads, kv_len, head_dim]; undefined: no output
};
struct ChunkResults {
  at::Tensor output, lse, key_mass;  // those that are wanted, as in attention.h
};
ChunkResults attend_cache(const at::Tensor& q, const Cache& cache, const DeviceSoftmax& softmax,
                          bool want_mass);

// use(g, p) of each KV head g: p [query heads, m, its gathered keys].
void for_each_gathered(const at::Tensor& q, const at::Tensor& k, const DeviceSoftmax& softmax,
                       at::IntArrayRef begin, const at::Tensor& positions, const at::Tensor& shared,
                       const std::function<void(std::int64_t g, const at::Tensor& p)>& use);

}  // namespace kvloupe::attention::generic
