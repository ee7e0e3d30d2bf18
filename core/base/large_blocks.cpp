#include "core/base/large_blocks.h"

#include <malloc.h>

namespace kvloupe {

void give_back_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  ::mallopt(M_TRIM_THRESHOLD,
            128 << 10);  // glibc's own at the start: frees before this have raised it
}

}  // namespace kvloupe
