// Packed formats against values worked out by hand, and all of them against plain numpy
// (tests/tools/make_quant_goldens.py).
#include "capture/model/dequantise.h"

#include "core/base/error.h"
#include "core/base/safetensors.h"
#include "tests/capture/gguf_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

constexpr std::uint16_t kHalfOne = 0x3c00;       // 1.0
constexpr std::uint16_t kHalfQuarter = 0x3400;   // 0.25
constexpr std::uint16_t kHalfMinusTwo = 0xc000;  // -2.0

std::vector<float> unpack(ElementType type, const std::string& bytes, std::int64_t begin,
                          std::size_t count) {
  std::vector<float> out(count, -99.0F);
  dequantise(type, std::as_bytes(std::span(bytes.data(), bytes.size())), begin, out);
  return out;
}

// Sixteen bytes whose low nibbles are 0..15 and whose high nibbles are 15..0.
std::string nibbles() {
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i | (15 - i) << 4);
  return bytes;
}

TEST(Dequantise, PlainTypes) {
  std::string f32;
  for (const float value : {1.5F, -2.0F, 0.1F}) append(f32, value);
  EXPECT_EQ(unpack(ElementType::F32, f32, 0, 3), (std::vector<float>{1.5F, -2.0F, 0.1F}));
  EXPECT_EQ(unpack(ElementType::F32, f32, 2, 1), std::vector<float>{0.1F});
  std::string f16;
  // 1, 0.25, -2, the smallest subnormal 2^-24, the largest half 65504
  for (const int bits : {0x3c00, 0x3400, 0xc000, 0x0001, 0x7bff}) {
    append(f16, static_cast<std::uint16_t>(bits));
  }
  EXPECT_EQ(unpack(ElementType::F16, f16, 0, 5),
            (std::vector<float>{1, 0.25F, -2, 5.9604644775390625e-8F, 65504}));
  std::string bf16;
  for (const int bits : {0x3f80, 0xc000, 0x3dcd}) append(bf16, static_cast<std::uint16_t>(bits));
  EXPECT_EQ(unpack(ElementType::BF16, bf16, 0, 3), (std::vector<float>{1, -2, 0.10009765625F}));
}

TEST(Dequantise, Q8_0) {
  std::string bytes;
  append(bytes, kHalfQuarter);
  for (int i = 0; i < 32; ++i) append(bytes, static_cast<std::int8_t>(8 * i - 128));
  append(bytes, kHalfMinusTwo);
  for (int i = 0; i < 32; ++i) append(bytes, static_cast<std::int8_t>(i));
  const auto out = unpack(ElementType::Q8_0, bytes, 0, 64);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], 0.25F * static_cast<float>(8 * i - 128));
    EXPECT_EQ(out[32 + i], -2.0F * static_cast<float>(i));
  }
  EXPECT_EQ(unpack(ElementType::Q8_0, bytes, 32, 32),
            std::vector<float>(out.begin() + 32, out.end()));
}

TEST(Dequantise, Q4_0) {
  std::string bytes;
  append(bytes, kHalfQuarter);
  bytes += nibbles();
  const auto out = unpack(ElementType::Q4_0, bytes, 0, 32);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.25F * static_cast<float>(i - 8));
    EXPECT_EQ(out[16 + i], 0.25F * static_cast<float>(7 - i));
  }
}

TEST(Dequantise, Q4_1) {
  std::string bytes;
  append(bytes, kHalfQuarter);
  append(bytes, kHalfMinusTwo);
  bytes += nibbles();
  append(bytes, kHalfOne);
  append(bytes, kHalfQuarter);
  bytes += std::string(16, '\x21');
  const auto out = unpack(ElementType::Q4_1, bytes, 0, 64);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.25F * static_cast<float>(i) - 2);
    EXPECT_EQ(out[16 + i], 0.25F * static_cast<float>(15 - i) - 2);
    EXPECT_EQ(out[32 + i], 1.25F);
    EXPECT_EQ(out[48 + i], 2.25F);
  }
}

TEST(Dequantise, RangesOutsideTheDataAreOurOwnBug) {
  EXPECT_THROW(unpack(ElementType::Q8_0, std::string(34, '\0'), 0, 64), Error);
  EXPECT_THROW(unpack(ElementType::Q8_0, std::string(34, '\0'), 0, 16), Error);
  EXPECT_THROW(unpack(ElementType::Q8_0, std::string(34, '\0'), 16, 32), Error);
}

TEST(Dequantise, EveryTypeIsAsNumpyReadsIt) {
  const std::string path =
      std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../data/capture/quants.safetensors";
  const SafetensorsFile golden(path, "make it anew");
  std::ifstream stream(path, std::ios::binary);
  int types = 0;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = known_type(number);
    if (!type) continue;
    std::string name(name_of(*type));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    const auto bytes = golden.entries().find(name + ".bytes");
    if (bytes == golden.entries().end()) continue;
    ++types;
    std::string blocks(static_cast<std::size_t>(bytes->second.count()), '\0');
    stream.seekg(static_cast<std::streamoff>(golden.data_begin() + bytes->second.begin));
    stream.read(blocks.data(), static_cast<std::streamsize>(blocks.size()));
    const std::vector<float> want = golden.read(name + ".values");
    const std::vector<float> values = unpack(*type, blocks, 0, want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(values[i], want[i], 2e-6F * std::abs(want[i]) + 1e-12F) << name << " " << i;
  }
  EXPECT_EQ(types, 13);
}

}  // namespace
}  // namespace kvloupe::capture
