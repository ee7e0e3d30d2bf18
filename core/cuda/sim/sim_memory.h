// Device memory of `sim`: pages that fault unless an Access lives, and always beyond their end.
#pragma once

#include <c10/core/Allocator.h>

namespace kvloupe::sim {

c10::Allocator& allocator();

}  // namespace kvloupe::sim
