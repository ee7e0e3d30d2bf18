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

inline std::size_t size_of(NumberType type) { return type == NumberType::Fp32 ? 4 : 2; }

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

// What numbers of the type have of these, in fp32.
inline std::vector<float> rounded(std::vector<float> values, NumberType type) {
  for (float& value : values) value = value_of_bits(bits_of(value, type), type);
  return values;
}

template <typename Case>
Case in_type(Case one, NumberType type) {
  one.type = type;
  return one;
}

template <typename Case>
std::vector<Case> in_all_types(const std::vector<Case>& cases) {
  std::vector<Case> all;
  for (const NumberType type : {NumberType::Fp32, NumberType::Fp16, NumberType::Bf16})
    for (const Case& one : cases) all.push_back(in_type(one, type));
  return all;
}

template <template <typename> typename Array>
class Numbers {
 public:
  Numbers(const std::vector<float>& values, NumberType type)
      : type_(type),
        words_(type == NumberType::Fp32 ? values : std::vector<float>()),
        halves_(halves(values, type)) {}
  // What the array begins as.
  Numbers(std::size_t count, NumberType type)
      : type_(type),
        words_(type == NumberType::Fp32 ? count : 0),
        halves_(type == NumberType::Fp32 ? 0 : count) {}

  void* data(std::size_t first = 0) const {
    return type_ == NumberType::Fp32 ? static_cast<void*>(words_.data() + first)
                                     : halves_.data() + first;
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
