// A file that is being written, by its descriptor: HDF5 writes through it (h5_driver.h).
// - Values go to the disk at once. Structure is held in memory until flush() and goes in an order of
//   which each state can be read, since a kill may end any of them: first what is new, then what
//   refers to it, by rank. The system copies page by page, so each page is a write of its own.
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
#include <set>
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
  // Of what was on the disk before, higher ranks go first.
  void write_at_flush(std::uint64_t offset, std::span<const std::byte> bytes, int rank = 0);
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
  struct Piece {
    std::vector<std::byte> bytes;
    int rank = 0;
  };
  using Held = std::map<std::uint64_t, Piece>;  // by offset, without overlap

  void fail(std::string reason);
  void check_length();
  void hold(std::uint64_t offset, std::span<const std::byte> bytes, int rank);
  void put(std::uint64_t offset, std::span<const std::byte> bytes);
  void put_by_pages(std::uint64_t offset, std::span<const std::byte> bytes);
  bool read_disk(std::uint64_t offset, std::span<std::byte> out) const;
  std::vector<std::uint64_t> flush_order() const;

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
  std::optional<std::string> failure_;
  Held held_;
  std::set<std::uint64_t> flushed_;  // where structure begins that is on the disk
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
