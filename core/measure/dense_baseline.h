// What a sparse method is compared with: dense attention of the chunk, in forms of Torch's and in that of our
// operators. The fastest counts. Private to core/measure: needs Torch.
#pragma once

#include "core/base/softmax_form.h"
#include "core/measure/dense_forms.h"
#include "core/measure/timing.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace kvloupe::measure {

// "sdpa gqa": scaled_dot_product_attention with enable_gqa; "sdpa expanded": on K and V expanded to the query
// heads; "sdpa folded": the group's heads folded into query rows; kOwnForm: our operator; alone where a softcap
// or a sink, which Torch's do not know, enters the softmax. A window is a mask for Torch's, over the keys that some
// row sees. On a GPU its kernels by name too (gpu_kernels.h), but where a window hides keys.
class DenseBaseline {
 public:
  // On the processor all of these. Elsewhere those that have the memory and give what plain_attention() does.
  // Throws Error{Input} where there are none.
  DenseBaseline(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const SoftmaxForm& softmax);

  const std::vector<NamedAttention>& forms() const { return chosen_.forms; }
  const std::vector<DenseLeftOut>& left_out() const { return chosen_.left_out; }
  std::vector<TimedPart> parts() const;

 private:
  ChosenForms chosen_;
};

// The part of [first, first + count) with the smallest median.
std::size_t fastest_of(const RoundTimes& times, std::size_t first, std::size_t count);

}  // namespace kvloupe::measure
