#include "core/base/thread_waiting.h"

#include <cstdlib>
#include <initializer_list>

namespace kvloupe {
namespace {

// Some microseconds: as long as most barriers of a chunk's attention take.
constexpr const char* kSpins = "3000";

}  // namespace

void spin_briefly() {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (std::getenv(chosen) != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", kSpins, 0);
}

}  // namespace kvloupe
