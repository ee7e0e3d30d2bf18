// A folder for the files of a benchmark, gone with the object.
#pragma once

#include <filesystem>

namespace kvloupe::bench {

class ScratchFolder {
 public:
  ScratchFolder();  // throws Error{Input} when it cannot be made
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvloupe::bench
