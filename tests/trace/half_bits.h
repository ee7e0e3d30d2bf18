// IEEE half precision of values that were halves before they were widened.
#pragma once

#include <bit>
#include <cstdint>

namespace kvloupe::trace {

// The bits of a value that is exact in half precision, as all are that a trace of halves gives; a
// NaN stays a NaN. Other values are cut, not rounded.
inline std::uint16_t half_bits_of_exact(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t exponent = bits >> 23 & 0xffu;
  const std::uint32_t fraction = bits & 0x7fffffu;
  if (exponent == 0xff) {
    const std::uint32_t quiet = fraction == 0 ? 0 : 0x200u | fraction >> 13;
    return static_cast<std::uint16_t>(sign | 0x7c00u | quiet);
  }
  if (exponent > 112) {
    return static_cast<std::uint16_t>(sign | (exponent - 112) << 10 | fraction >> 13);
  }
  // Subnormal among halves: the leading one becomes a bit like the others.
  if (exponent < 103) return sign;
  return static_cast<std::uint16_t>(sign | (fraction | 0x800000u) >> (126 - exponent));
}

}  // namespace kvloupe::trace
