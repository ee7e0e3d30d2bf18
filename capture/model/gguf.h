// Reads GGUF model files (versions 2 and 3, little-endian) by mapping them. Every file is taken for
// hostile: each count, length, offset and dimension is checked against the file's size before it is
// used, and nothing is allocated from a number that was not checked.
#pragma once

#include "capture/model/stored_tensor.h"
#include "core/base/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

class GgufFile {
 public:
  // Throws Error{Input} naming the key or tensor that is damaged or not supported.
  explicit GgufFile(const std::filesystem::path& path);
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Throws Error{Input} when the file became shorter meanwhile: what was read of it is not to be
  // believed then.
  void require_whole() const { file_.require_whole(); }
  void release_pages() const { file_.release_pages(); }
  void add_to(Sha256& sum) const { file_.add_to(sum); }
  std::span<const std::byte> bytes() const { return bytes_; }  // the whole file

  // nullopt when the key is absent (or ""); throws Error{Input} when it is of another type.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> reals(std::string_view key) const;

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the file's order
  const StoredTensor* find_tensor(std::string_view name) const;

 private:
  struct Value {
    std::uint32_t type = 0;
    std::size_t offset = 0;  // of the payload
  };
  class Cursor;
  void parse();
  void skip_value(Cursor& cursor, std::uint32_t type, int depth) const;
  void parse_metadata(Cursor& cursor, std::uint64_t count);
  void parse_tensor_entry(Cursor& cursor, std::uint64_t index);
  void place_tensors(std::size_t data_begin, std::uint64_t alignment);
  Cursor cursor_at(std::size_t offset, std::string_view what) const;
  const Value* find(std::string_view key) const;
  std::int64_t read_integer(Cursor& cursor, std::uint32_t type, std::string_view key) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::uint64_t> tensor_offsets_;  // relative to the data section, beside tensors_
  std::map<std::string, std::size_t, std::less<>> tensor_index_;
};

}  // namespace kvloupe::capture
