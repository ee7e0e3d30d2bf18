#include "core/measure/timed_type.h"

#include "core/device/torch_device.h"

namespace kvloupe::measure {

ComputeType timed_type(const std::string& device, trace::DType stored) {
  const bool as_stored = !device::torch_device(device).is_cpu();
  return as_stored && stored == trace::DType::F16 ? ComputeType::Fp16 : ComputeType::Fp32;
}

}  // namespace kvloupe::measure
