#include "core/base/large_blocks.h"

#include <malloc.h>

#include <atomic>

namespace kvloupe {
namespace {

constexpr std::uint64_t kMostFreed = 64U << 20;

std::atomic<bool> gives_back = false;
std::atomic<std::uint64_t> freed_since = 0;

}  // namespace

void give_back_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  // What glibc begins with: blocks that were freed before have raised it.
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
  gives_back = true;
}

void give_back_freed(std::uint64_t bytes) {
  if (!gives_back || (freed_since += bytes) < kMostFreed) return;
  freed_since = 0;
  ::malloc_trim(0);
}

}  // namespace kvloupe
