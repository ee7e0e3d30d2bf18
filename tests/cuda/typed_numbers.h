// Numbers of a type that is known when the program runs, where kernels reach them.
#pragma once

#include "core/cuda/number_types.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda::testing {

inline const char* name_of(NumberType type) {
  return type == NumberType::Fp32 ? "fp32" : type == NumberType::Fp16 ? "fp16" : "bf16";
}

// Half the distance from 1 to the next number: what rounding may be off, in parts of the number. 0 of
// fp32, where it is not told from what sums are off.
inline double rounding_of(NumberType type) {
  return type == NumberType::Fp32 ? 0 : type == NumberType::Fp16 ? 0x1p-11 : 0x1p-8;
}

inline std::uint32_t bits_of(float value, NumberType type) {
  return type == NumberType::Fp16   ? rounded_to<Half>(value).bits
         : type == NumberType::Bf16 ? rounded_to<BFloat16>(value).bits
                                    : std::bit_cast<std::uint32_t>(value);
}

inline float value_of_bits(std::uint32_t bits, NumberType type) {
  const auto narrow = static_cast<std::uint16_t>(bits);
  return type == NumberType::Fp16   ? value_of(Half{narrow})
         : type == NumberType::Bf16 ? value_of(BFloat16{narrow})
                                    : std::bit_cast<float>(bits);
}

template <template <typename> typename Array>
class Numbers {
 public:
  Numbers(const std::vector<float>& values, NumberType type)
      : type_(type),
        words_(type == NumberType::Fp32 ? values : std::vector<float>()),
        halves_(halves(values, type)) {}

  void* data() const {
    return type_ == NumberType::Fp32 ? static_cast<void*>(words_.data()) : halves_.data();
  }
  std::vector<float> copy() const {
    if (type_ == NumberType::Fp32) return words_.copy();
    std::vector<float> values;
    for (const std::uint16_t bits : halves_.copy()) values.push_back(value_of_bits(bits, type_));
    return values;
  }

 private:
  static std::vector<std::uint16_t> halves(const std::vector<float>& values, NumberType type) {
    std::vector<std::uint16_t> bits;
    if (type == NumberType::Fp32) return bits;
    for (const float value : values)
      bits.push_back(static_cast<std::uint16_t>(bits_of(value, type)));
    return bits;
  }

  // One of the two is empty.
  NumberType type_;
  Array<float> words_;
  Array<std::uint16_t> halves_;
};

}  // namespace kvloupe::cuda::testing
