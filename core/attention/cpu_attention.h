// The CPU implementations behind the operators of operators.cpp. Shapes were checked there.
#pragma once

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
at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              double scale, const at::Tensor& positions, const at::Tensor& offsets,
                              bool self_only);

}  // namespace kvloupe::attention::cpu
