// The types of number that queries, keys and values have, by their bits: the same to nvcc and to the
// host's compiler, neither of which needs a header of the toolkit for them. Conversions are for host
// code; device code has those of tensor_core.cuh.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvloupe::cuda {

enum class NumberType { Fp32, Fp16, Bf16 };

struct Half {  // IEEE binary16
  std::uint16_t bits;
};
struct BFloat16 {  // the upper half of an fp32
  std::uint16_t bits;
};

// work(number) for a number of the type: a float, a Half or a BFloat16.
template <typename Work>
auto with_number_of(NumberType type, const Work& work) {
  switch (type) {
    case NumberType::Fp16: return work(Half());
    case NumberType::Bf16: return work(BFloat16());
    case NumberType::Fp32: break;
  }
  return work(float());
}

inline float value_of(Half number) {
  const std::uint32_t magnitude = (number.bits & 0x7FFFU) << 13;
  const float value = magnitude >= 0x7C00U << 13 ? std::bit_cast<float>(magnitude | 0x7F800000U)
                                                 : std::bit_cast<float>(magnitude) * 0x1p112F;
  return (number.bits & 0x8000U) != 0 ? -value : value;
}
inline float value_of(BFloat16 number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number.bits) << 16);
}

// To the nearest, ties to the even one.
template <typename T>
T rounded_to(float value);

template <>
inline Half rounded_to<Half>(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = std::fabs(value);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  if (!(magnitude < 65520.0F))
    bits = std::isnan(value) ? 0x7E00U : 0x7C00U;
  else if (magnitude < 0x1p-14F)
    bits = static_cast<std::uint32_t>(std::nearbyintf(magnitude * 0x1p24F));
  else
    bits = (bits + 0xFFFU + (bits >> 13 & 1U) - (112U << 23)) >> 13;
  return {static_cast<std::uint16_t>(sign | bits)};
}

template <>
inline BFloat16 rounded_to<BFloat16>(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value))
    bits |= 1U << 22;
  else
    bits += 0x7FFFU + (bits >> 16 & 1U);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

}  // namespace kvloupe::cuda
