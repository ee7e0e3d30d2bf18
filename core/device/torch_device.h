// The devices of device.h as Torch names them.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace kvloupe::device {

// Opens it too; throws as open_device().
c10::Device torch_device(const std::string& text);

// Until all that was asked of it is done.
void wait_for(c10::Device device);

// Memory of the whole device, of this machine for the CPU and `sim`. The device is open.
std::uint64_t memory_bytes(c10::Device device);

}  // namespace kvloupe::device
