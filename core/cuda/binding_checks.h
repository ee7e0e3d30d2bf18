// What bindings of operators have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>

namespace kvloupe::cuda {

namespace detail {

template <auto kBinding>
struct Operator;
template <typename Launcher, typename Result, typename... Arguments,
          Result (*kBinding)(const Launcher&, Arguments...)>
struct Operator<kBinding> {
  using Signature = Result(Arguments...);
};

}  // namespace detail

// An operator as Torch calls it, without the launcher that its binding is given.
template <auto kBinding>
using SignatureOf = typename detail::Operator<kBinding>::Signature;

// Kernels count in int.
inline bool is_countable(const at::Tensor& tensor) {
  for (const std::int64_t size : tensor.sizes())
    if (size > std::numeric_limits<std::int32_t>::max() / 2) return false;
  return true;
}

// Keys in one piece inside a head, as core/selection/operators/operators.cpp checks them.
inline at::Tensor contiguous_per_head(const at::Tensor& keys) {
  const bool as_is = (keys.size(1) <= 1 || keys.stride(1) == keys.size(2)) &&
                     (keys.size(2) <= 1 || keys.stride(2) == 1);
  return as_is ? keys : keys.contiguous();
}

}  // namespace kvloupe::cuda
