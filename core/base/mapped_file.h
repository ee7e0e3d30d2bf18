// A file read through memory, which another process may cut short meanwhile. Reading beyond the end
// of a mapped file is a bus error that ends the program; here the lost pages read as zeros and the
// owner is told, so that a load can end with a sentence.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kvloupe {

class Sha256;
struct MappedRegion;  // an entry of the table that the signal handler reads

class MappedFile {
 public:
  // Throws Error{Input}: no regular file, empty, or it cannot be opened; `what` it is, "the model
  // file", is for the message.
  MappedFile(const std::filesystem::path& path, const char* what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const;
  // Throws Error{Input} when the file has become shorter since it was mapped. What was read before
  // may be zeros then: call it before anything read is believed.
  void require_whole() const;
  // What was read need not stay in memory; it comes from the file again when it is read again.
  void release_pages() const;
  // SHA-256 of all of it goes into `sum`, without the pages that were read staying in memory.
  void add_to(Sha256& sum) const;

 private:
  MappedRegion* region_ = nullptr;
  std::filesystem::path path_;
  const char* what_;
  int descriptor_ = -1;
};

}  // namespace kvloupe
