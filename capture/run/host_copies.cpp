#include "capture/run/host_copies.h"

#include "core/device/torch_device.h"

#include <ATen/ATen.h>

#include <utility>

namespace kvloupe::capture {

at::Tensor HostCopies::of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cpu()) return tensor.contiguous();
  from_ = tensor.device();
  const bool pinned = tensor.is_cuda();
  at::Tensor host =
      at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()).pinned_memory(pinned));
  return host.copy_(tensor, /*non_blocking=*/pinned);
}

void HostCopies::then(std::function<void()> work) {
  if (!from_) return work();
  waiting_.push_back(std::move(work));
}

void HostCopies::finish() {
  if (!from_) return;
  device::wait_for(*from_);
  from_.reset();
  for (const std::function<void()>& work : std::exchange(waiting_, {})) work();
}

}  // namespace kvloupe::capture
