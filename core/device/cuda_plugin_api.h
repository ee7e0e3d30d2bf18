// What the program asks of the plug-in by name once it is loaded. Everything else goes through
// Torch's dispatcher.
#pragma once

#include <cstddef>

namespace kvloupe::cuda {

// Writes the device's name to `text` and returns 0; or why it cannot be used, and returns 1.
using DescribeDevice = int (*)(int index, char* text, std::size_t size);
inline constexpr const char* kDescribeDeviceName = "kvloupe_describe_cuda_device";

}  // namespace kvloupe::cuda
