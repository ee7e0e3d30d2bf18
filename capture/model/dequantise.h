// Turns the packed elements of a stored tensor into fp32.
#pragma once

#include "capture/model/stored_tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvloupe::capture {

// Elements [begin, begin + out.size()) of `data` in row-major order; both ends lie on block
// borders.
void dequantise(ElementType type, std::span<const std::byte> data, std::int64_t begin,
                std::span<float> out);

}  // namespace kvloupe::capture
