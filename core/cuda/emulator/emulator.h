// Runs CUDA kernels on the host: the very same sources, compiled by the host's compiler against
// cuda_runtime_api.h beside this header. The threads of a block are fibers, which run one at a time
// from barrier to barrier, in an order that the schedule's seed draws anew each time; so a barrier that
// is missing shows in the result. Threads of a warp meet where they exchange values; a drawn order also
// lets one warp run ahead of the others, changes threads before atomics, and does asynchronous copies now
// early, now late. Blocks run one after the other. Shared memory begins as NaN, and an access beyond its
// end faults. One host thread at a time. Free of Torch.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>

namespace kvloupe::cuda::emulator {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// A place in the source of a kernel: the file's name without its folders, and the line.
struct Site {
  std::string_view file;
  unsigned line = 0;
  auto operator<=>(const Site&) const = default;
};
Site site_of(const char* path, unsigned line);

// Order of threads from now on; 0: ascending.
void set_schedule(std::uint64_t seed);

// To prove that a test would see it: the barriers of this place do nothing from now on; {}: all work.
void leave_out_barrier(const Site& site);
// Those of this line in every file; 0: all work.
void leave_out_barrier(unsigned line);
// Barriers of blocks and of warps that kernels have met since the program began, and their lines alone.
const std::set<Site>& barrier_sites();
const std::set<unsigned>& barrier_lines();
std::set<Site> barrier_sites_in(std::string_view file);

// The most dynamic shared memory of a block, which the smallest of our targets (sm_80) has.
inline constexpr std::size_t kMostSharedMemory = 163 << 10;
// For a test: that of another card from now on.
void set_most_shared_memory(std::size_t bytes);
std::size_t most_shared_memory();

// Calls `body` as each thread of each block. False where CUDA refuses the launch itself: an empty grid or
// block, more blocks than 65,535 along y or z, more than 1,024 threads (64 along z), more shared memory
// than there is. Throws what body throws, and Error{Internal} where lanes of a warp wait for each other
// in vain.
bool launch(Extent grid, Extent block, std::size_t shared_bytes, const std::function<void()>& body);

// Launches since the program began.
std::uint64_t num_launches();

// For the thread that runs: the coordinates, the shared memory of its block (which must have `size`
// bytes), the barrier of its block.
Extent thread_index();
Extent block_index();
Extent block_extent();
Extent grid_extent();
void* shared_memory(std::size_t size);
void barrier(const Site& site);

// The barrier of the lanes of a mask. Each must come to the same place with the same mask, itself in
// it; else Error{Internal}.
void warp_barrier(const Site& site, unsigned mask);
// The same, never left out, and with some words of each lane: what all lanes gave. Those outside the
// mask mean nothing. Valid until the thread's next barrier.
inline constexpr int kWarpSize = 32;
using LaneValue = std::array<std::uint64_t, 3>;
using WarpValues = std::array<LaneValue, kWarpSize>;
const WarpValues& warp_exchange(const Site& site, unsigned mask, const LaneValue& value);
// Of the thread that runs, in its warp.
int lane();

// Before an atomic operation: in a drawn order another thread may come first.
void before_atomic();

// Copies 4, 8 or 16 bytes, both places aligned to that, at some time until the thread waits for the
// group of copies that it commits them to: for all but the last `groups_left` groups.
void copy_async(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(std::size_t groups_left);

}  // namespace kvloupe::cuda::emulator
