// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvloupe {

// A file that is written beside its final name and takes it at the end, or vanishes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target);  // creates nothing
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }  // write here, close, then commit
  void commit();  // replaces the target; throws std::filesystem::filesystem_error

 private:
  std::filesystem::path target_, path_;
};

// Never leaves half a file under the path. Throws Error{Input}.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kvloupe
