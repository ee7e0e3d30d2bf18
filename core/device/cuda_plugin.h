// Loads, at run time and only when a CUDA device is asked for, Torch's CUDA part and our plug-in
// with the CUDA kernels of the kvloupe operators.
#pragma once

#include <string>

namespace kvloupe::device {

// Returns the device's name. Throws Error{Input} with a sentence that says which piece is missing:
// the driver, a library that Torch's CUDA part needs, the plug-in, or the device.
std::string open_cuda_device(int index);

}  // namespace kvloupe::device
