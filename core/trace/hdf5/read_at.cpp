#include "core/trace/hdf5/read_at.h"

#include <unistd.h>

#include <cerrno>

namespace kvloupe::trace {

// An offset that no file can have is a negative one to the system, which refuses it.
static_assert(sizeof(off_t) == sizeof(std::uint64_t));

std::optional<std::size_t> read_at(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace kvloupe::trace
