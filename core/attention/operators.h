// What the typed functions before the operators share. Private to core/attention.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace kvloupe::attention {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Throw Error{Internal} for shapes or types that contradict each other.
void check_shapes(const at::Tensor& q, const at::Tensor& k);
void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace kvloupe::attention
