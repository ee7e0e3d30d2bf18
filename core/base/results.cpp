#include "core/base/results.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace kvloupe::results {
namespace {

std::string held;
bool anything_read = false;  // by who reads standard output

}  // namespace

void claim_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is the stream's own. Opened the wrong way, so that using it still fails.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void add_text(std::string_view text) { held += printable_lines(text); }

void add_data(std::string_view bytes) { held += bytes; }

void deliver() {
  if (held.empty()) return;
  const std::string bytes = std::exchange(held, {});
  std::string_view left = bytes;
  int reason = write_all(STDOUT_FILENO, left);
  anything_read = anything_read || left.size() < bytes.size();
  if (reason == EPIPE && anything_read) throw ReaderGone();
  // Some file systems report a full disk only at closing.
  if (reason == 0 && ::close(::dup(STDOUT_FILENO)) != 0) reason = errno;
  if (reason == 0) return;
  throw input_error("the result was not delivered",
                    reason == EBADF
                        ? std::string("standard output is closed")
                        : fmt::format("standard output reports: {}", std::strerror(reason)),
                    "send it to a file on a disk with room, or to a program that reads all of it");
}

}  // namespace kvloupe::results
