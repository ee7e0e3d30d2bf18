#include "core/base/whole_file.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

namespace kvloupe {

TemporaryFile::TemporaryFile(const std::filesystem::path& target)
    : target_(target), path_(fmt::format("{}.{}.tmp", target.string(), ::getpid())) {}

TemporaryFile::~TemporaryFile() {
  std::error_code code;
  if (!path_.empty()) std::filesystem::remove(path_, code);
}

void TemporaryFile::commit() {
  std::filesystem::rename(path_, target_);
  path_.clear();
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile temporary(path);
  const auto refuse = [&](const std::string& reason) {
    throw input_error(fmt::format("{} cannot be written", path.string()), reason,
                      "choose another file or make its folder writable");
  };
  std::FILE* file = std::fopen(temporary.path().c_str(), "wb");
  if (file == nullptr) refuse(std::strerror(errno));
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int reason = errno;
  if (std::fclose(file) != 0 || !whole) refuse(std::strerror(whole ? errno : reason));
  try {
    temporary.commit();
  } catch (const std::filesystem::filesystem_error& error) {
    refuse(error.code().message());
  }
}

}  // namespace kvloupe
