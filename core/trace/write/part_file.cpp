#include "core/trace/write/part_file.h"

#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/trace/runs/sidecar.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

Error busy(const fs::path& trace_path) {
  return input_error("cannot write " + trace_path.string(), "another capture is writing it",
                     "wait for it or give another name by -o");
}

Error unusable(const fs::path& part, const std::string& reason) {
  return input_error("cannot write " + part.string(), reason,
                     "check the permissions of its folder or give another name by -o");
}

void refuse_chunks_of_another(const fs::path& part) {
  throw input_error(part.string() + " exists",
                    "a capture of that name was cut short and left its chunks there",
                    "give --resume to go on, --force to drop them or another name by -o");
}

int open_part(const fs::path& part, int flags) {
  const int descriptor =
      ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (descriptor < 0) throw unusable(part, std::strerror(errno));
  return descriptor;
}

// Another inode under the same name: whoever has the old one open writes to a file without a name,
// and notices.
DiskFile replace(const fs::path& part) {
  std::error_code code;
  fs::remove(part, code);
  return {part, open_part(part, O_EXCL)};
}

// Empty and ours; what is there is dropped by `force` alone.
DiskFile own(const fs::path& path, const fs::path& trace_path, bool force) {
  for (;;) {
    const int descriptor = open_part(path, 0);
    DiskFile file(path, descriptor);
    const LockState state = try_lock(descriptor);
    if (state == LockState::Theirs) throw busy(trace_path);
    // Its owner may have renamed or removed it since we opened it.
    if (!file.is_at(path)) continue;
    if (!force && file.size() > 0) refuse_chunks_of_another(path);
    if (state == LockState::Unknown) return replace(path);
    file.resize(0);
    if (file.failure()) throw unusable(path, *file.failure());
    return file;
  }
}

// 0, or -1 with errno. Without `overwrite` nothing that exists is replaced.
int rename(const fs::path& from, const fs::path& to, bool overwrite) {
  if (overwrite) return ::rename(from.c_str(), to.c_str());
  const int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
  // The file system cannot do it in one step.
  if (::access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from.c_str(), to.c_str());
}

}  // namespace

fs::path part_path(const fs::path& trace_path) {
  fs::path part = trace_path;
  part += ".part";
  return part;
}

std::vector<fs::path> files_of_trace(const fs::path& trace_path) {
  return {trace_path, part_path(trace_path), sidecar_path(trace_path)};
}

void check_trace_file(const fs::path& trace_path, const InputFiles& inputs, bool force) {
  check_output_file(trace_path, "a trace", "a capture", inputs, force);
  const fs::path part = part_path(output_target(trace_path));
  std::error_code code;
  if (!fs::exists(part, code)) return;
  if (!FileLock::of_existing(part).held()) throw busy(trace_path);
  if (!force) refuse_chunks_of_another(part);
}

DiskFile begin_part_file(const fs::path& trace_path, bool force) {
  check_trace_file(trace_path, {}, force);
  return own(part_path(trace_path), trace_path, force);
}

DiskFile open_left_part(const fs::path& trace_path, const InputFiles& inputs, bool force) {
  check_output_file(trace_path, "a trace", "a capture", inputs, force);
  const fs::path part = part_path(output_target(trace_path));
  const int descriptor = ::open(part.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0)
    throw input_error("there is nothing to resume",
                      fmt::format("{} cannot be opened: {}", part.string(), std::strerror(errno)),
                      "capture without --resume");
  DiskFile file(part, descriptor);
  if (try_lock(descriptor) == LockState::Theirs || !file.is_at(part)) throw busy(trace_path);
  return file;
}

DiskFile begin_resumed_part(const fs::path& trace_path) {
  fs::path path = part_path(trace_path);
  path += ".resumed";
  return own(path, trace_path, true);
}

void become_part(DiskFile& resumed, const fs::path& trace_path) {
  const fs::path part = part_path(trace_path);
  resumed.sync();
  if (!resumed.failure() && ::rename(resumed.path().c_str(), part.c_str()) == 0) {
    resumed.rename_to(part);
    return;
  }
  throw unusable(part, resumed.failure().value_or(std::strerror(errno)));
}

void publish_part_file(DiskFile& part, const fs::path& trace_path, bool overwrite) {
  const fs::path from = part.path();
  part.sync();
  if (part.failure())
    throw input_error("cannot finish " + from.string(), *part.failure(),
                      "capture again and keep other programs from that file");
  if (rename(from, trace_path, overwrite) != 0) {
    if (errno == EEXIST)
      throw input_error(trace_path.string() + " exists", "it appeared in the meantime",
                        "the trace is in " + from.string() + "; move it where you want it");
    throw input_error("cannot rename " + from.string(), std::strerror(errno),
                      "the trace is complete there; move it where you want it");
  }
  if (!part.is_at(trace_path))
    throw input_error("cannot finish " + trace_path.string(),
                      "another program put its own file there", "capture again under another name");
}

void remove_part_file(const DiskFile& part) {
  std::error_code code;
  if (part.is_at(part.path())) fs::remove(part.path(), code);
}

}  // namespace kvloupe::trace
