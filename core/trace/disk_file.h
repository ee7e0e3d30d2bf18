// A file that is being written, by its descriptor: HDF5 writes through it (h5_driver.h).
// - Values go to the disk at once. Structure, which refers to what was allocated before it, is held in
//   memory until flush() and goes from the end of the file to its beginning: what is new first, what
//   refers to it later, so that a kill in between leaves a file that can be read.
// - The first failure is kept, for those who ask. From then on nothing reaches the disk, so that the
//   file stays as it was, and all that is written is held: the library never learns of the failure
//   and can close what is open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::trace {

class DiskFile {
 public:
  // Takes the descriptor, which must be open for reading and writing.
  DiskFile(std::filesystem::path path, int descriptor);
  ~DiskFile();
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&&) = delete;

  // A new file, or one that exists and is to be changed. Throw Error{Input}.
  static DiskFile create(const std::filesystem::path& path);
  static DiskFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  // What went wrong first, as a clause; nothing while all is well.
  const std::optional<std::string>& failure() const { return failure_; }

  // False when it fails; bytes beyond the end read as zero.
  bool read(std::uint64_t offset, std::span<std::byte> out) const;
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void write_at_flush(std::uint64_t offset, std::span<const std::byte> bytes);
  // As check() first.
  void flush();
  void resize(std::uint64_t size);
  // A failure where the file no longer has its name, or is shorter than it was left.
  void check();
  // As check(), and brings all to the disk.
  void sync();
  // Whether the file is what `path` names.
  bool is_at(const std::filesystem::path& path) const;
  void rename_to(const std::filesystem::path& path) { path_ = path; }

 private:
  void fail(std::string reason);
  void check_length();

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
  std::optional<std::string> failure_;
  std::map<std::uint64_t, std::vector<std::byte>> held_;  // by offset, without overlap
};

// For tests: sees every change before it is made (`bytes` at `offset`, or a new length), and makes
// it fail by returning an errno.
struct DiskChange {
  const DiskFile& file;
  std::uint64_t offset = 0;  // the new length where `bytes` is empty
  std::span<const std::byte> bytes;
};
using DiskHook = std::function<int(const DiskChange&)>;
void set_disk_hook(DiskHook hook);

}  // namespace kvloupe::trace
