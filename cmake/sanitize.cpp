// Linked into every program of a sanitized build. Not counted as leaks of ours: what Mesa's software driver and fontconfig keep
// for good, and what HDF5 does not free of a damaged object that it refuses half-read. The driver is unloaded with the last
// context, after which the sanitizer could not tell whose block it found; so no library is unloaded here. Nor races between
// that driver's own threads, whose locks the thread sanitizer cannot see.
#include <dlfcn.h>

extern "C" {
int dlclose(void*) noexcept { return 0; }
// Thread-local storage of a library that was opened late is found by a guess (GCC 12: what lies before a block at 16 of a
// page is taken for glibc 2.19's header), which in one layout of 256 reads what is none, and the check for leaks crashes.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the sanitizer's.
const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }
// NOLINTNEXTLINE(bugprone-reserved-identifier): likewise.
const char* __lsan_default_suppressions() {
  return "leak:swrast_dri.so\nleak:H5FL__malloc\nleak:libfontconfig.so\n";
}
// NOLINTNEXTLINE(bugprone-reserved-identifier): likewise.
const char* __tsan_default_suppressions() { return "called_from_lib:swrast_dri.so\n"; }
}
