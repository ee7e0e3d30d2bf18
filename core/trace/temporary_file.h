// A file that is written beside its final name and takes it at the end, or vanishes.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace kvloupe::trace {

// Removes the file unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code code;
    if (!path_.empty()) std::filesystem::remove(path_, code);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void rename_to(const std::filesystem::path& target) {
    std::filesystem::rename(path_, target);
    path_.clear();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace kvloupe::trace
