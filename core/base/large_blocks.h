// What becomes of large blocks of memory that are freed.
#pragma once

#include <cstdint>

namespace kvloupe {

// Blocks of 8 MB and more go back to the system at once. By itself glibc keeps freed blocks of up to 32 MB
// for the next ones, and the window holds some 50 MB more (docs/performance.md). For the whole process, from
// then on.
void give_back_large_blocks();
// Says that so many bytes were freed, in blocks of any size. Small ones stay with their thread, among blocks in use.
// After 64 MB all free pages go back to the system. Does nothing unless the above was called.
void give_back_freed(std::uint64_t bytes);

}  // namespace kvloupe
