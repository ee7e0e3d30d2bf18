// Inside a GGUF file: its value types, and a position that never leaves it.
#pragma once

#include "capture/model/gguf.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <cstring>

namespace kvloupe::capture {

// Metadata value types, numbered as in the format.
enum ValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
// Bytes of a scalar; 0 for strings, arrays and what the format does not know.
std::size_t scalar_bytes(std::uint32_t type);
// A name from the file, fit for a message: control bytes and endless names never reach a terminal.
std::string shown(std::string_view name);
Error damaged(const std::filesystem::path& path, std::string why);

// A position in the file that can only move inside it. `what` names what is being read.
class GgufFile::Cursor {
 public:
  Cursor(const GgufFile& file, std::size_t offset) : file_(&file), offset_(offset) {}

  std::string what;

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return file_->bytes_.size() - offset_; }

  void skip(std::uint64_t count) {
    if (count > remaining()) throw truncated(count);
    offset_ += count;
  }

  template <typename T>
  T read() {
    if (sizeof(T) > remaining()) throw truncated(sizeof(T));
    T value;
    std::memcpy(&value, file_->bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A view into the mapping.
  std::string_view read_string() {
    const auto length = read<std::uint64_t>();
    const auto begin = offset_;
    skip(length);
    return {reinterpret_cast<const char*>(file_->bytes_.data()) + begin, length};
  }

 private:
  Error truncated(std::uint64_t wanted) const {
    return damaged(file_->path_,
                   fmt::format("{} at byte {} claims {} bytes, but the file has {} left", what,
                               offset_, wanted, remaining()));
  }

  const GgufFile* file_;
  std::size_t offset_;
};

}  // namespace kvloupe::capture
