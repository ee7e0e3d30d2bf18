// Linked into every program of a sanitized build: what Mesa's software driver keeps for good is not counted as a leak of ours.
// The driver is unloaded with the last context, after which the sanitizer could not tell whose block it found; so no library
// is unloaded here.
#include <dlfcn.h>

extern "C" {
int dlclose(void*) noexcept { return 0; }
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the sanitizer's.
const char* __lsan_default_suppressions() { return "leak:swrast_dri.so\n"; }
}
