// The device that everything is computed on unless another one is named.
#pragma once

namespace kvloupe::device {

// As open_device() and parse_device() take them (device.h), beside "cuda:0" and "sim".
inline constexpr const char* kCpu = "cpu";
inline constexpr const char* kDefault = kCpu;

}  // namespace kvloupe::device
