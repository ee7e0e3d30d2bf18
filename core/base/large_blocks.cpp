#include "core/base/large_blocks.h"

#include <malloc.h>

namespace kvloupe {

void give_back_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  // What glibc begins with: blocks that were freed before have raised it.
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

}  // namespace kvloupe
