// The packed formats, one loop each: weight = scale * q (+ minimum), 32 weights to a block.
#include "capture/model/dequantise.h"

#include "core/base/error.h"

#include <c10/util/Half.h>

#include <bit>
#include <cstring>

namespace kvloupe::capture {
namespace {

constexpr int kBlock = 32;

float half_at(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return c10::detail::fp16_ieee_to_fp32_value(bits);
}

void from_f16(const std::byte* in, float* out) { *out = half_at(in); }

void from_bf16(const std::byte* in, float* out) {
  std::uint16_t bits;
  std::memcpy(&bits, in, sizeof(bits));
  *out = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// fp16 scale, 32 int8.
void from_q8_0(const std::byte* in, float* out) {
  const float scale = half_at(in);
  const auto* q = reinterpret_cast<const std::int8_t*>(in + 2);
  for (int i = 0; i < kBlock; ++i) out[i] = scale * static_cast<float>(q[i]);
}

// fp16 scale, 16 bytes: the low nibbles are weights 0..15, the high ones 16..31; zero is at 8.
void from_q4_0(const std::byte* in, float* out) {
  const float scale = half_at(in);
  const auto* q = reinterpret_cast<const std::uint8_t*>(in + 2);
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = scale * static_cast<float>((q[i] & 0xf) - 8);
    out[i + kBlock / 2] = scale * static_cast<float>((q[i] >> 4) - 8);
  }
}

// fp16 scale, fp16 minimum, nibbles as above.
void from_q4_1(const std::byte* in, float* out) {
  const float scale = half_at(in);
  const float minimum = half_at(in + 2);
  const auto* q = reinterpret_cast<const std::uint8_t*>(in + 4);
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = scale * static_cast<float>(q[i] & 0xf) + minimum;
    out[i + kBlock / 2] = scale * static_cast<float>(q[i] >> 4) + minimum;
  }
}

template <void (*kConvert)(const std::byte*, float*)>
void convert(const std::byte* in, ElementBlock block, std::span<float> out) {
  const auto num_blocks = static_cast<std::int64_t>(out.size()) / block.elements;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    kConvert(in + b * block.bytes, out.data() + b * block.elements);
  }
}

}  // namespace

void dequantise(ElementType type, std::span<const std::byte> data, std::int64_t begin,
                std::span<float> out) {
  const ElementBlock block = block_of(type);
  const auto count = static_cast<std::int64_t>(out.size());
  KVLOUPE_CHECK(begin >= 0 && begin % block.elements == 0 && count % block.elements == 0);
  const auto data_blocks = static_cast<std::int64_t>(data.size()) / block.bytes;
  KVLOUPE_CHECK((begin + count) / block.elements <= data_blocks);
  const std::byte* in = data.data() + begin / block.elements * block.bytes;
  switch (type) {
    case ElementType::F32:
      std::memcpy(out.data(), in, out.size_bytes());
      return;
    case ElementType::F16:
      return convert<from_f16>(in, block, out);
    case ElementType::BF16:
      return convert<from_bf16>(in, block, out);
    case ElementType::Q8_0:
      return convert<from_q8_0>(in, block, out);
    case ElementType::Q4_0:
      return convert<from_q4_0>(in, block, out);
    case ElementType::Q4_1:
      return convert<from_q4_1>(in, block, out);
    case ElementType::Bytes:
      break;
  }
  KVLOUPE_CHECK(!"bytes are no numbers");
}

}  // namespace kvloupe::capture
