// The device that tests hold against the CPU: `sim`, or what KVLOUPE_TESTED_DEVICE names where there is a
// GPU (tests/gpu/run.sh).
#pragma once

#include <cstdlib>
#include <string>

namespace kvloupe::device::testing {

inline std::string tested_device() {
  const char* name = std::getenv("KVLOUPE_TESTED_DEVICE");
  return name != nullptr && *name != '\0' ? name : "sim";
}

}  // namespace kvloupe::device::testing
