// What becomes of large blocks of memory that are freed.
#pragma once

namespace kvloupe {

// Blocks of 8 MB and more go back to the system at once. By itself glibc keeps freed blocks of up to 32 MB
// for the next ones, and the window holds some 50 MB more (docs/performance.md). For the whole process, from
// then on.
void give_back_large_blocks();

}  // namespace kvloupe
