// What the host has made for a device.
#pragma once

#include <ATen/ATen.h>

namespace kvloupe::attention {

// The numbers of a host tensor on the device, in the order of what is asked of it: the host goes on at once and
// may change or free its own. A GPU copies from page-locked memory, which Torch keeps until that is done. What
// is there already, and on the CPU, is the tensor itself.
inline at::Tensor uploaded(const at::Tensor& numbers, c10::Device device) {
  if (!numbers.is_cpu() || device.is_cpu()) return numbers.to(device);
  at::Tensor host = numbers;
  if (device.is_cuda())  // Tensor::pin_memory() asks `sim`, where that is open too
    host = at::empty(numbers.sizes(), at::dtype(numbers.scalar_type()).pinned_memory(true))
               .copy_(numbers);
  return host.to(device, numbers.scalar_type(), /*non_blocking=*/true, /*copy=*/true);
}

}  // namespace kvloupe::attention
