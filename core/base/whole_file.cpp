#include "core/base/whole_file.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/results.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

// Unlike that of any other file that this process or another one writes now.
fs::path name_beside(const fs::path& target) {
  static std::atomic<int> count{0};
  fs::path path;
  std::error_code code;
  do {
    path = fmt::format("{}.{}-{}.tmp", target.string(), ::getpid(), count++);
  } while (fs::exists(fs::symlink_status(path, code)));
  return path;
}

// Writes and closes; returns 0 or the errno.
int write_to(const fs::path& path, int flags, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666);
  if (file < 0) return errno;
  int reason = write_all(file, bytes);
  // What is renamed must be on the disk first. A device or FIFO has nothing to hold.
  if (reason == 0 && ::fsync(file) != 0 && errno != EINVAL && errno != EROFS) reason = errno;
  if (::close(file) != 0 && reason == 0) reason = errno;
  return reason;
}

}  // namespace

int write_all(int descriptor, std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{descriptor, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

TemporaryFile::TemporaryFile(const fs::path& target)
    : target_(output_target(target)), path_(name_beside(target_)) {
  std::error_code code;
  if (fs::exists(target_, code) && !fs::is_regular_file(target_, code) &&
      !fs::is_directory(target_, code))
    throw input_error(target.string() + " cannot be replaced", "it is no regular file",
                      "give another name");
}

TemporaryFile::~TemporaryFile() {
  std::error_code code;
  if (!path_.empty()) fs::remove(path_, code);
}

void TemporaryFile::commit() {
  struct stat old {};
  if (::stat(target_.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    // Only root may give a file away; to everybody else the file is theirs before and after.
    if (::chown(path_.c_str(), old.st_uid, old.st_gid) == 0 || errno == EPERM)
      fs::permissions(path_, static_cast<fs::perms>(old.st_mode & 0777));
  }
  fs::rename(path_, target_);
  path_.clear();
}

void write_whole_file(const fs::path& path, std::string_view bytes) {
  if (is_standard_output(path)) return results::add_data(bytes);
  const auto refuse = [&](const std::string& reason) {
    throw input_error(fmt::format("{} cannot be written", path.string()), reason,
                      reason == std::strerror(ENOSPC)
                          ? "free some space or choose another file"
                          : "choose another file or make its folder writable");
  };
  std::error_code code;
  if (fs::is_other(path, code)) {
    if (const int reason = write_to(path, 0, bytes)) refuse(std::strerror(reason));
    return;
  }
  TemporaryFile temporary(path);
  if (const int reason = write_to(temporary.path(), O_CREAT | O_EXCL, bytes))
    refuse(std::strerror(reason));
  try {
    temporary.commit();
  } catch (const fs::filesystem_error& error) {
    refuse(error.code().message());
  }
}

}  // namespace kvloupe
