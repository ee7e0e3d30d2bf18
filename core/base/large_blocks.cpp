#include "core/base/large_blocks.h"

#include <malloc.h>

namespace kvloupe {

void give_back_large_blocks() { ::mallopt(M_MMAP_THRESHOLD, 8 << 20); }

}  // namespace kvloupe
