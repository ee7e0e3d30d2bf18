// The metadata of a GGUF file, by key.
#include "capture/model/gguf.h"
#include "capture/model/gguf_cursor.h"

#include <limits>
#include <utility>

namespace kvloupe::capture {

std::size_t scalar_bytes(std::uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool: return 1;
    case kUint16:
    case kInt16: return 2;
    case kUint32:
    case kInt32:
    case kFloat32: return 4;
    case kUint64:
    case kInt64:
    case kFloat64: return 8;
    default: return 0;
  }
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMaxShown = 80;
  std::string text;
  for (const char c : name.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return name.size() > kMaxShown ? text + "..." : text;
}

Error damaged(const std::filesystem::path& path, std::string why) {
  return input_error(fmt::format("cannot read the model file {}", path.string()), std::move(why),
                     "download the file again or choose another one");
}

GgufFile::Cursor GgufFile::cursor_at(std::size_t offset, std::string_view what) const {
  Cursor cursor(*this, offset);
  cursor.what = what;
  return cursor;
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

std::int64_t GgufFile::read_integer(Cursor& cursor, std::uint32_t type,
                                    std::string_view key) const {
  switch (type) {
    case kUint8: return cursor.read<std::uint8_t>();
    case kInt8: return cursor.read<std::int8_t>();
    case kUint16: return cursor.read<std::uint16_t>();
    case kInt16: return cursor.read<std::int16_t>();
    case kUint32: return cursor.read<std::uint32_t>();
    case kInt32: return cursor.read<std::int32_t>();
    case kBool: return cursor.read<std::uint8_t>() != 0 ? 1 : 0;
    case kInt64: return cursor.read<std::int64_t>();
    case kUint64: {
      const auto value = cursor.read<std::uint64_t>();
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw damaged(path_,
                      fmt::format("the metadata key {} is {}, beyond any use", shown(key), value));
      }
      return static_cast<std::int64_t>(value);
    }
    default: throw damaged(path_, fmt::format("the metadata key {} is not an integer", shown(key)));
  }
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  return read_integer(cursor, value->type, key);
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type == kFloat32) return cursor.read<float>();
  if (value->type == kFloat64) return cursor.read<double>();
  if (value->type == kString || value->type == kArray || value->type == kBool)
    throw damaged(path_, fmt::format("the metadata key {} is not a number", shown(key)));
  return static_cast<double>(read_integer(cursor, value->type, key));
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kString) {
    throw damaged(path_, fmt::format("the metadata key {} is not a string", shown(key)));
  }
  return std::string(cursor_at(value->offset, key).read_string());
}

std::optional<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type != kArray || cursor.read<std::uint32_t>() != kString) {
    throw damaged(path_, fmt::format("the metadata key {} is not a list of strings", shown(key)));
  }
  // parse() walked this array, so its count is one that the file holds.
  const auto count = cursor.read<std::uint64_t>();
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) texts.emplace_back(cursor.read_string());
  return texts;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type != kArray) {
    throw damaged(path_, fmt::format("the metadata key {} is not a list", shown(key)));
  }
  const auto element_type = cursor.read<std::uint32_t>();
  const auto count = cursor.read<std::uint64_t>();
  std::vector<std::int64_t> numbers;
  if (scalar_bytes(element_type) != 0) numbers.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    numbers.push_back(read_integer(cursor, element_type, key));
  }
  return numbers;
}

std::optional<std::vector<double>> GgufFile::reals(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  const auto element_type = value->type == kArray ? cursor.read<std::uint32_t>() : kString;
  if (element_type != kFloat32 && element_type != kFloat64) {
    throw damaged(path_, fmt::format("the metadata key {} is not a list of floating-point numbers",
                                     shown(key)));
  }
  const auto count = cursor.read<std::uint64_t>();
  std::vector<double> numbers;
  numbers.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    numbers.push_back(element_type == kFloat32 ? cursor.read<float>() : cursor.read<double>());
  }
  return numbers;
}

}  // namespace kvloupe::capture
