// The one list of operators of attention that have a kernel, for every device that runs them.
#pragma once

#include "core/cuda/bindings.h"
#include "core/cuda/sparse_bindings.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace kvloupe::cuda {

// kBinding as Torch calls it: with run(q, launches) of the device, which q lies on, for its Run.
template <auto kBinding, auto kRun>
struct Bound;
template <typename Result, typename... Arguments,
          Result (*kBinding)(const Run&, const at::Tensor&, Arguments...), auto kRun>
struct Bound<kBinding, kRun> {
  static Result call(const at::Tensor& q, Arguments... arguments) {
    return kBinding([&q](const Launches& launches) { return kRun(q, launches); }, q, arguments...);
  }
};

// kRun: cudaError_t(const at::Tensor& q, const Launches&).
template <auto kRun>
void register_attention(torch::Library& library) {
  library.impl("chunk_attention", Bound<chunk_attention, kRun>::call);
  library.impl("chunk_mass", Bound<chunk_mass, kRun>::call);
  library.impl("attend_gathered", Bound<attend_gathered, kRun>::call);
  library.impl("gathered_attention", Bound<gathered_attention, kRun>::call);
  library.impl("kept_attention", Bound<kept_attention, kRun>::call);
  library.impl("paged_attention", Bound<paged_attention, kRun>::call);
  library.impl("block_sparse_attention", Bound<block_sparse_attention, kRun>::call);
}

}  // namespace kvloupe::cuda
