// What the typed functions before the operators share. Private to core/attention.
#pragma once

#include "core/base/softmax_form.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace kvloupe::attention {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Throw Error{Internal} for shapes or types that contradict each other.
void check_shapes(const at::Tensor& q, const at::Tensor& k);
void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// Error{Internal} for another number of sinks than query heads, Error{Input} for a softmax that the
// device of q has no kernels for: the CPU's know all of them, other devices' plain ones.
void check_softmax(const SoftmaxForm& softmax, const at::Tensor& q);

// As the operators take it: scale, window, softcap, then the sink logits of all query heads or none.
using PackedSoftmax = at::ArrayRef<double>;
std::vector<double> packed(const SoftmaxForm& softmax);
SoftmaxForm unpacked(PackedSoftmax values);

}  // namespace kvloupe::attention
