#include "core/device/sim_plugin.h"

#include "core/device/plugin.h"
#include "core/device/sim_plugin_api.h"

namespace kvloupe::device {
namespace {

constexpr Plugin kPlugin{"the device sim", "plug-in for it", "libkvloupe_sim.so",
                         "KVLOUPE_SIM_PLUGIN",
                         "start the program by ./kvloupe.sh, which builds it,"};

template <typename Function>
Function symbol(const char* name) {
  return reinterpret_cast<Function>(load_symbol(kPlugin, name));
}

}  // namespace

void open_sim() {
  // Where it throws, the next call tries again.
  static const bool open = (symbol<sim::RegisterDevice>(sim::kRegisterDeviceName)(), true);
  static_cast<void>(open);
}

std::size_t sim_allocated_bytes() {
  open_sim();
  return symbol<sim::AllocatedBytes>(sim::kAllocatedBytesName)();
}

DeviceWork sim_work() {
  open_sim();
  static const auto count = symbol<sim::CountWork>(sim::kCountWorkName);
  sim::Work work;
  count(&work);
  return {work.launches, work.host_waits};
}

}  // namespace kvloupe::device
