// See atomic_file.h.
#include "app/shell/atomic_file.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace kvloupe::shell {

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.part{}", path, ::getpid());
  const auto refuse = [&](int reason) {
    std::remove(temporary.c_str());
    throw input_error(fmt::format("{} cannot be written", path), std::strerror(reason),
                      "choose another file or make its folder writable");
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) refuse(errno);
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int reason = errno;
  if (std::fclose(file) != 0 || !whole) refuse(whole ? errno : reason);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse(errno);
}

}  // namespace kvloupe::shell
