// The CPU implementations behind the operators of operators.cpp. Shapes were checked there.
#pragma once

#include "core/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace kvloupe::attention::cpu {

// output, lse, key_mass; key_mass is empty when not wanted.
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v, double scale,
                                                               bool want_mass);
// lse, key_mass.
std::tuple<at::Tensor, at::Tensor> chunk_mass(const at::Tensor& q, const at::Tensor& k,
                                              double scale);
// Selected positions as CSR over KV heads: positions int32, offsets int64 [num_kv_heads + 1].
GatheredKeys gather(const at::Tensor& k, const at::Tensor& v, std::int64_t chunk_len,
                    const std::int32_t* positions, const std::int64_t* offsets, bool self_only);
at::Tensor attend_gathered(const at::Tensor& q, const GatheredKeys& keys, double scale);
at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              double scale, const at::Tensor& positions, const at::Tensor& offsets,
                              bool self_only);

}  // namespace kvloupe::attention::cpu
