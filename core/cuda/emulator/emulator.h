// Runs CUDA kernels on the host: the very same sources, compiled by the host's compiler against
// cuda_runtime_api.h beside this header. The threads of a block are fibers, which run one at a time
// from barrier to barrier, in an order that the schedule's seed draws anew each time; so a barrier that
// is missing shows in the result. Blocks run one after the other. Shared memory begins as NaN, and an
// access beyond its end faults. One host thread at a time. Free of Torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>

namespace kvloupe::cuda::emulator {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// Order of threads from now on; 0: ascending.
void set_schedule(std::uint64_t seed);

// To prove that a test would see it: barriers of this source line do nothing from now on; 0: all work.
void leave_out_barrier(unsigned line);
// Source lines of the barriers that kernels have met since the program began.
const std::set<unsigned>& barrier_lines();

// The most dynamic shared memory of a block, which the smallest of our targets (sm_80) has.
inline constexpr std::size_t kMostSharedMemory = 163 << 10;

// Calls `body` as each thread of each block. False where the launch itself is wrong: an empty grid or
// block, more than 1,024 threads, more shared memory than there is. Throws what body throws.
bool launch(Extent grid, Extent block, std::size_t shared_bytes, const std::function<void()>& body);

// For the thread that runs: the coordinates, the shared memory of its block (which must have `size`
// bytes), the barrier of its block.
Extent thread_index();
Extent block_index();
void* shared_memory(std::size_t size);
void barrier(unsigned line);

}  // namespace kvloupe::cuda::emulator
