// A tensor of a model file, as it lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// Element types, with the numbers of the GGUF format: all that ggml turns into numbers (known_type()),
// of which those named are asked for by name.
enum class ElementType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q8_0 = 8,
  BF16 = 30,
  // Not of GGUF: bytes that only a family knows how to read (GPT-OSS's MXFP4 blocks and scales).
  Bytes = 1U << 16
};
std::optional<ElementType> known_type(std::uint32_t number);

// How a type packs its elements: `elements` values take `bytes` bytes.
struct ElementBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
};
ElementBlock block_of(ElementType type);
std::string_view name_of(ElementType type);

struct StoredTensor {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;  // row-major: slowest first
  std::int64_t num_elements = 0;
  std::span<const std::byte> data;  // inside a mapped file
};

}  // namespace kvloupe::capture
