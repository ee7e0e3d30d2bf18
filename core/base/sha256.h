// SHA-256 (FIPS 180-4), to name model files and traces by their content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvloupe {

class Sha256 {
 public:
  Sha256& update(const void* data, std::size_t size);
  Sha256& update(std::string_view text) { return update(text.data(), text.size()); }
  // 64 lower-case hexadecimal digits. Ends the message: call it once.
  std::string hex_digest();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::uint64_t size_ = 0;  // bytes so far
};

// Throws Error{Input} when the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace kvloupe
