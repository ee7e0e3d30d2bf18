// Loaded before a program (LD_PRELOAD), lets one of its large requests for memory fail, wherever it
// comes from: operator new, Torch's and HDF5's own, and files that are mapped.
//   KVLOUPE_FAIL_FROM    bytes from which a request is large
//   KVLOUPE_FAIL_AT      which of them fails, from 1; 0: none
//   KVLOUPE_FAIL_REPORT  file that gets a line when one fails, and their number at the end
// What libraries ask for while they are loaded is not counted: an exception there ends any program.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

std::atomic<long> requests{0};
thread_local int loading = 0;  // libraries, by this thread

long number_in(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

void report(const char* what, long number, std::size_t bytes) {
  const char* path = std::getenv("KVLOUPE_FAIL_REPORT");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char line[96];
  const int length = std::snprintf(line, sizeof line, "%s %ld %zu\n", what, number, bytes);
  if (::write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
  ::close(file);
}

// One more request: whether it is to fail.
bool fails(std::size_t bytes, bool always_large = false) {
  static const long large = number_in("KVLOUPE_FAIL_FROM", 1 << 20);
  static const long at = number_in("KVLOUPE_FAIL_AT", 0);
  if (!always_large && bytes < static_cast<std::size_t>(large)) return false;
  if (loading > 0) return false;
  const long number = ++requests;
  if (number != at) return false;
  report("failed", number, bytes);
  errno = ENOMEM;
  return true;
}

// Whichever way the program ends.
struct AtExit {
  AtExit() { std::at_quick_exit(end); }
  ~AtExit() { end(); }
  static void end() { report("requests", requests, 0); }
} at_exit;

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return fails(size) ? nullptr : __libc_malloc(size); }

void* calloc(std::size_t count, std::size_t size) {
  return fails(count * size) ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* old, std::size_t size) {
  return fails(size) ? nullptr : __libc_realloc(old, size);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  void* const made = fails(size) ? nullptr : __libc_memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *out = made;
  return 0;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails(size) ? nullptr : __libc_memalign(alignment, size);
}

void* memalign(std::size_t alignment, std::size_t size) {
  return fails(size) ? nullptr : __libc_memalign(alignment, size);
}

void* dlopen(const char* file, int mode) {
  using Dlopen = void* (*)(const char*, int);
  static const auto real = reinterpret_cast<Dlopen>(::dlsym(RTLD_NEXT, "dlopen"));
  ++loading;
  void* const library = real(file, mode);
  --loading;
  return library;
}

// The loader and the threads' stacks do not come here; of files each one counts.
void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) {
  if (file >= 0 && fails(size, true)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, size, protection, flags, file, offset));
}

}  // extern "C"
