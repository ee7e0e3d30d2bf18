// A lock of a file (flock), against other programs and against other descriptors of this one.
#pragma once

#include <chrono>
#include <filesystem>

namespace kvloupe {

// What a try gave: unknown where the file system has no locks.
enum class LockState { Ours, Theirs, Unknown };
// Tries it for the descriptor, which holds the lock until it is closed.
LockState try_lock(int descriptor);

// Held while it lives. Where the file cannot be opened or has no locks nobody is kept out, and it counts as
// held.
class FileLock {
 public:
  // Of a file that is there for nothing else, and is made. Waits `patience` at most for who holds it.
  explicit FileLock(const std::filesystem::path& path,
                    std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  // Of a file that somebody else may write.
  static FileLock of_existing(const std::filesystem::path& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }
  bool wait(std::chrono::milliseconds patience);

 private:
  explicit FileLock(int descriptor);

  int descriptor_ = -1;
  bool held_ = false;
};

}  // namespace kvloupe
