#include "core/base/finite.h"

#include <bit>
#include <cstdint>

namespace kvloupe {

// Infinities and NaNs have all bits of the exponent set, other numbers have not. Without a branch, and by comparisons that every
// x86-64 processor makes of four numbers at once, which is not so for a maximum of whole numbers.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t found = 0;
  for (const float value : values)
    found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? ~0U : 0U;
  return found == 0;
}

}  // namespace kvloupe
