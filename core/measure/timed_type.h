// In what type of number selection and attention are timed.
#pragma once

#include "core/trace/trace_types.h"

#include <string>

namespace kvloupe::measure {

// fp32 on the processor, whose kernels have no other. On other devices that which the numbers are stored
// in, so that nothing is rounded: there models run in 16 bits, and so does the dense attention that
// methods compete with. `device` as device::open_device() takes it.
ComputeType timed_type(const std::string& device, trace::DType stored = trace::DType::F16);

}  // namespace kvloupe::measure
