// The devices of this machine, for the picker.
#pragma once

#include "app/state/answers.h"
#include "core/device/device.h"

#include <string>
#include <vector>

namespace kvloupe::state {

// Loads Torch's CUDA part where that is possible: not to be asked before somebody wants to choose.
struct DevicesQuestion {
  static constexpr const char* kName = "devices";
  using Answer = std::vector<device::ListedDevice>;

  std::string key() const { return "of this machine"; }
  std::string title() const { return "Listing the devices"; }
  Answer work(Steps& steps) const;
};

}  // namespace kvloupe::state
