#include "core/base/whole_file.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace kvloupe {

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.part{}", path.string(), ::getpid());
  const auto refuse = [&](int reason) {
    std::remove(temporary.c_str());
    throw input_error(fmt::format("{} cannot be written", path.string()), std::strerror(reason),
                      "choose another file or make its folder writable");
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) refuse(errno);
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int reason = errno;
  if (std::fclose(file) != 0 || !whole) refuse(whole ? errno : reason);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse(errno);
}

}  // namespace kvloupe
