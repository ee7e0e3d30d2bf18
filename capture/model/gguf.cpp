// The GGUF format: a header, key-value metadata, tensor descriptions, padding, tensor data. Read once
// from front to back.
#include "capture/model/gguf.h"

#include "capture/model/gguf_cursor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace kvloupe::capture {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF data are used in place");

constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1 << 20;

Error unsupported(const std::filesystem::path& path, std::string why, std::string remedy) {
  return input_error(fmt::format("cannot use the model file {}", path.string()), std::move(why),
                     std::move(remedy));
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path)
    : path_(path), file_(path, "the model file"), bytes_(file_.bytes()) {
  parse();
}

void GgufFile::parse() {
  Cursor cursor = cursor_at(0, "the header");
  if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
    throw damaged(path_, "it does not begin with the letters GGUF");
  }
  cursor.skip(4);
  const auto version = cursor.read<std::uint32_t>();
  if (version != 2 && version != 3) {
    // A big-endian file shows its version in the upper byte.
    const bool big_endian = (version & 0xffffU) == 0 && version != 0;
    throw unsupported(path_,
                      big_endian ? std::string("it is a big-endian GGUF file")
                                 : fmt::format("its GGUF version is {}", version),
                      "convert it to a little-endian GGUF file of version 2 or 3");
  }
  const auto tensor_count = cursor.read<std::uint64_t>();
  const auto value_count = cursor.read<std::uint64_t>();
  // The shortest entries there can be: counts beyond these bounds are wrong without reading on.
  constexpr std::uint64_t kMinValueBytes = 8 + 4 + 1;
  constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
  if (value_count > cursor.remaining() / kMinValueBytes) {
    throw damaged(path_, fmt::format("it claims {} metadata keys, more than fit", value_count));
  }
  if (tensor_count > cursor.remaining() / kMinTensorBytes) {
    throw damaged(path_, fmt::format("it claims {} tensors, more than fit", tensor_count));
  }
  parse_metadata(cursor, value_count);
  for (std::uint64_t i = 0; i < tensor_count; ++i) parse_tensor_entry(cursor, i);

  const auto alignment = integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment <= 0 || static_cast<std::uint64_t>(alignment) > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    throw damaged(path_, fmt::format("general.alignment is {}, not a power of two up to {}",
                                     alignment, kMaxAlignment));
  }
  place_tensors(cursor.offset(), static_cast<std::uint64_t>(alignment));
}

void GgufFile::parse_metadata(Cursor& cursor, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    cursor.what = fmt::format("the name of metadata key {}", i);
    const std::string_view key = cursor.read_string();
    cursor.what = fmt::format("the metadata key {}", shown(key));
    const auto type = cursor.read<std::uint32_t>();
    const Value value{type, cursor.offset()};
    skip_value(cursor, type, 0);
    if (!values_.emplace(key, value).second) {
      throw damaged(path_, fmt::format("the metadata key {} appears twice", shown(key)));
    }
  }
}

void GgufFile::skip_value(Cursor& cursor, std::uint32_t type, int depth) const {
  if (const auto size = scalar_bytes(type); size != 0) {
    cursor.skip(size);
  } else if (type == kString) {
    cursor.read_string();
  } else if (type == kArray) {
    if (depth >= kMaxArrayDepth) {
      throw damaged(path_,
                    fmt::format("{} nests arrays deeper than {}", cursor.what, kMaxArrayDepth));
    }
    const auto element_type = cursor.read<std::uint32_t>();
    const auto count = cursor.read<std::uint64_t>();
    if (element_type > kFloat64) {
      throw damaged(path_, fmt::format("{} is a list of the unknown value type {}", cursor.what,
                                       element_type));
    }
    if (const auto element_bytes = scalar_bytes(element_type); element_bytes != 0) {
      if (count > cursor.remaining() / element_bytes) {
        throw damaged(path_,
                      fmt::format("{} claims {} elements, more than fit", cursor.what, count));
      }
      cursor.skip(count * element_bytes);
    } else {
      // Each element takes bytes, so that a wrong count ends at the end of the file.
      for (std::uint64_t i = 0; i < count; ++i) skip_value(cursor, element_type, depth + 1);
    }
  } else {
    throw damaged(path_, fmt::format("{} has the unknown value type {}", cursor.what, type));
  }
}

void GgufFile::parse_tensor_entry(Cursor& cursor, std::uint64_t index) {
  cursor.what = fmt::format("the name of tensor {}", index);
  StoredTensor tensor;
  tensor.name = cursor.read_string();
  const std::string name = fmt::format("the tensor {}", shown(tensor.name));
  cursor.what = name;

  const auto num_dims = cursor.read<std::uint32_t>();
  if (num_dims == 0 || num_dims > kMaxDims) {
    throw damaged(path_,
                  fmt::format("{} has {} dimensions, not 1 to {}", name, num_dims, kMaxDims));
  }
  tensor.num_elements = 1;
  tensor.shape.resize(num_dims);
  for (std::uint32_t d = 0; d < num_dims; ++d) {
    const auto size = cursor.read<std::uint64_t>();
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (size == 0 || size > kMax / static_cast<std::uint64_t>(tensor.num_elements)) {
      throw damaged(path_, fmt::format("{} has an impossible dimension {}", name, size));
    }
    tensor.shape[num_dims - 1 - d] = static_cast<std::int64_t>(size);
    tensor.num_elements *= static_cast<std::int64_t>(size);
  }
  const auto type_number = cursor.read<std::uint32_t>();
  const auto type = known_type(type_number);
  if (!type) {
    throw unsupported(
        path_, fmt::format("{} has the element type number {}", name, type_number),
        "use a file in a type of llama.cpp: F32, F16, BF16, Q2_K to Q8_0, IQ4_NL, MXFP4");
  }
  tensor.type = *type;
  tensor_offsets_.push_back(cursor.read<std::uint64_t>());
  if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
    throw damaged(path_, fmt::format("{} appears twice", name));
  }
  tensors_.push_back(std::move(tensor));
}

void GgufFile::place_tensors(std::size_t data_begin, std::uint64_t alignment) {
  const std::uint64_t begin = (data_begin + alignment - 1) / alignment * alignment;
  const std::uint64_t available = bytes_.size() > begin ? bytes_.size() - begin : 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    StoredTensor& tensor = tensors_[i];
    const std::string name = fmt::format("the tensor {}", shown(tensor.name));
    const ElementBlock block = block_of(tensor.type);
    if (tensor.shape.back() % block.elements != 0) {
      throw damaged(path_, fmt::format("{} has rows of {} elements, not a multiple of {}", name,
                                       tensor.shape.back(), block.elements));
    }
    const auto blocks = static_cast<std::uint64_t>(tensor.num_elements / block.elements);
    const std::uint64_t offset = tensor_offsets_[i];
    if (offset % alignment != 0) {
      throw damaged(path_,
                    fmt::format("{} begins at {}, not a multiple of {}", name, offset, alignment));
    }
    // Divided, not multiplied: neither side can overflow.
    if (offset > available ||
        blocks > (available - offset) / static_cast<std::uint64_t>(block.bytes)) {
      throw damaged(path_, fmt::format("{} reaches beyond the end of the file", name));
    }
    tensor.data = bytes_.subspan(begin + offset, blocks * static_cast<std::uint64_t>(block.bytes));
  }
}

const StoredTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace kvloupe::capture
