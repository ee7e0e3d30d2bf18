#include "core/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

namespace kvloupe {

LockState try_lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return LockState::Ours;
  return errno == EWOULDBLOCK ? LockState::Theirs : LockState::Unknown;
}

FileLock::FileLock(int descriptor) : descriptor_(descriptor) { wait(std::chrono::milliseconds(0)); }

FileLock::FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience)
    : FileLock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {
  wait(patience);
}

FileLock FileLock::of_existing(const std::filesystem::path& path) {
  return FileLock(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

bool FileLock::wait(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    held_ = held_ || descriptor_ < 0 || try_lock(descriptor_) != LockState::Theirs;
    if (held_ || std::chrono::steady_clock::now() >= end) return held_;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), held_(std::exchange(other.held_, false)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace kvloupe
