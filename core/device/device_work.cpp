#include "core/device/device_work.h"

#include "core/device/cuda_plugin.h"
#include "core/device/sim_plugin.h"

namespace kvloupe::device {

std::optional<DeviceWork> count_device_work(const DeviceInfo& device,
                                            const std::function<void()>& run) {
  switch (device.kind) {
    case DeviceKind::Cpu: break;
    case DeviceKind::Cuda: return count_cuda_work(run);
    case DeviceKind::Sim: {
      const DeviceWork before = sim_work();
      run();
      const DeviceWork after = sim_work();
      return DeviceWork{after.launches - before.launches, after.host_waits - before.host_waits};
    }
  }
  run();
  return std::nullopt;
}

}  // namespace kvloupe::device
