// What a device reads and multiplies in a second at best: the floor under every time on it.
#pragma once

#include "core/base/compute_type.h"

#include <string>

namespace kvloupe::measure {

struct Peaks {
  double bytes_per_s = 0;
  double flops_per_s = 0;  // of a plain matrix product
};

// Of a device as device::open_device() takes it, of products of this type; of the processor, in fp32, for
// `sim`, which runs there. Measured once in a process, with nothing else running: about a second.
const Peaks& peaks_of(const std::string& device, ComputeType type);

}  // namespace kvloupe::measure
