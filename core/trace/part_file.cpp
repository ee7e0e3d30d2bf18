#include "core/trace/part_file.h"

#include "core/base/error.h"
#include "core/trace/sidecar.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

// HDF5 holds this lock on a file that it writes.
bool is_locked_by_another(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
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
  if (is_locked_by_another(part))
    throw input_error("cannot write " + trace_path.string(), "another capture is writing it",
                      "wait for it or give another name by -o");
  if (!force)
    throw input_error(part.string() + " exists",
                      "a capture of that name was cut short and left its chunks there",
                      "give --force to drop them or another name by -o");
}

}  // namespace kvloupe::trace
