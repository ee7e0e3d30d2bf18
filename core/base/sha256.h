// SHA-256 by OpenSSL, to name model files and traces by their content.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace kvloupe {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256& update(const void* data, std::size_t size);
  Sha256& update(std::string_view text) { return update(text.data(), text.size()); }
  // 64 lower-case hexadecimal digits. Ends the message: call it once.
  std::string hex_digest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace kvloupe
