// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvloupe {

// A file that is written beside its final name and takes it at the end, or vanishes. Where the name
// is a link, the file that it leads to is replaced, and its mode stays.
class TemporaryFile {
 public:
  // Creates nothing. Throws Error{Input}: the target is a device or the like, or a link in a circle.
  explicit TemporaryFile(const std::filesystem::path& target);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }  // write here, close, then commit
  void commit();  // replaces the target; throws std::filesystem::filesystem_error

 private:
  std::filesystem::path target_, path_;
};

// Never leaves half a file under the path. "-" and what else is standard output join the results
// (results.h), a device or FIFO is written through. Throws Error{Input}.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

// All of the bytes, also where they go in parts; what could not be written stays in `bytes`. Returns 0
// or the errno.
int write_all(int descriptor, std::string_view& bytes);

}  // namespace kvloupe
