// The devices of device.h as Torch names them.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kvloupe::device {

// Opens it too; throws as open_device().
c10::Device torch_device(const std::string& text);

}  // namespace kvloupe::device
