// Safetensors files: an 8-byte little-endian header length, a JSON header that names each tensor's
// type, shape and bytes, then the bytes. Row-major, little-endian.
// (huggingface/safetensors, README.md, "Format".)
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvloupe {

class SafetensorsFile {
 public:
  struct Entry {
    std::string dtype;  // "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
    std::int64_t count() const;        // values
  };

  // Reads and checks the header. Throws Error{Input}: no such file, or not a sound one; `remedy` is
  // the last part of the sentence.
  SafetensorsFile(std::filesystem::path path, std::string remedy);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::uint64_t data_begin() const { return data_begin_; }  // the end of the header
  // The values of a tensor of type F32, F16 or BF16. Throws Error{Input}: no tensor has that
  // name, it has another type, the file ends early.
  std::vector<float> read(const std::string& name) const;
  // The sentence for what is wrong with the content of this file.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void parse_header(const std::string& text, std::uint64_t data_bytes);

  std::filesystem::path path_;
  std::string remedy_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t data_begin_ = 0;
};

struct NamedTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// Writes the tensors as F32 in the order of their names. Beside and renamed: never leaves half a
// file under the final name. Throws Error{Input}.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace kvloupe
