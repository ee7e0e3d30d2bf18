// A block per row: three counts of its 33 bits of rank (forced or not, then the score's), from the top,
// find the rank at the cut; then each warp writes what it finds in a part of the row, in its order.
#include "core/cuda/keep_best.cuh"

#include "core/cuda/rank_value.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cstddef>

namespace kvloupe::cuda {
namespace {

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kAtOnce = 4;  // loads under way in a thread

// Forced or not in bit 32, the score below.
using Rank = unsigned long long;
constexpr int kRankBits = 33;
constexpr Rank kNone = ~0ULL;

// Digits of a rank, from the top: 12, 11 and 10 bits. The first makes the most buckets.
constexpr int kDigits = 3;
constexpr int digit_shift(int digit) { return digit == 0 ? 21 : digit == 1 ? 10 : 0; }
constexpr int digit_end(int digit) { return digit == 0 ? kRankBits : digit_shift(digit - 1); }
constexpr int kBuckets = 1 << 12;
constexpr int kUnforced = 1 << 11;  // buckets of the first digit that nothing forced is in

template <int kThreads>
struct Memory {
  static constexpr int kWarps = kThreads / kLanes;
  unsigned histogram[kBuckets];
  unsigned above[kWarps], equal[kWarps];
  // Of the bucket where the cut lies: its number, how many of its ranks are kept, how many it has.
  unsigned bucket, left, members;
  unsigned forced;
};

__device__ Rank rank_at(const KeepBest& p, const float* scores, int i) {
  if (i >= p.count) return kNone;
  const unsigned value = rank_value(scores[i]);
  const Rank first = p.forced != nullptr && p.forced[i] != 0 ? 1 : 0;
  return first << 32 | value;
}

// How many the threads before this one have.
template <int kThreads>
__device__ unsigned sum_before(unsigned own, Memory<kThreads>& memory) {
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  unsigned sum = own;
  for (int step = 1; step < kLanes; step *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kLanes - 1) memory.above[warp] = sum;
  __syncthreads();  // the sums of all warps are there
  for (int i = 0; i < warp; ++i) sum += memory.above[i];
  return sum - own;
}

// Counts the ranks that equal `cut` above this digit by the digit, and finds where the `left`-th
// largest of them is: memory.bucket, left, members. Each thread has neighbouring buckets, thread 0 the
// largest.
template <int kThreads>
__device__ void find_digit(const KeepBest& p, const float* scores, int digit, Rank cut,
                           unsigned left, Memory<kThreads>& memory) {
  constexpr int kOwn = kBuckets / kThreads;
  const int shift = digit_shift(digit), end = digit_end(digit);
  const unsigned mask = (1U << (end - shift)) - 1;
  const int top = kBuckets - 1 - static_cast<int>(threadIdx.x) * kOwn;
  for (int i = 0; i < kOwn; ++i) memory.histogram[top - i] = 0;
  __syncthreads();  // the histogram is empty
  for (int base = threadIdx.x; base < p.count; base += kThreads * kAtOnce) {
    Rank ranks[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) ranks[i] = rank_at(p, scores, base + i * kThreads);
    for (const Rank rank : ranks)
      if (rank >> end == cut >> end)
        atomicAdd(&memory.histogram[static_cast<unsigned>(rank >> shift) & mask], 1U);
  }
  __syncthreads();  // all are counted
  unsigned own = 0;
  for (int i = 0; i < kOwn; ++i) own += memory.histogram[top - i];
  unsigned before = sum_before(own, memory);
  if (digit == 0 && top == kUnforced - 1) memory.forced = before;
  if (before < left && left <= before + own) {
    int bucket = top;
    for (; left > before + memory.histogram[bucket]; --bucket) before += memory.histogram[bucket];
    memory.bucket = static_cast<unsigned>(bucket);
    memory.left = left - before;
    memory.members = memory.histogram[bucket];
  }
  __syncthreads();  // the bucket is found
}

// Which lanes of the warp have a rank above the cut, and which one at it.
struct Found {
  unsigned above, equal;
};
__device__ Found find(Rank rank, Rank cut) {
  return {__ballot_sync(kAllLanes, rank != kNone && rank > cut ? 1 : 0),
          __ballot_sync(kAllLanes, rank == cut ? 1 : 0)};
}

// Runs work(first position, what its warp finds there, rank of the lane's own) over the warp's part of
// the row.
template <int kThreads, typename Work>
__device__ void for_each_lane_row(const KeepBest& p, const float* scores, Rank cut,
                                  const Work& work) {
  constexpr int kStep = kLanes * kAtOnce;
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int steps = (p.count + kStep - 1) / kStep;
  const int share = (steps + kThreads / kLanes - 1) / (kThreads / kLanes);
  const int last = min(steps, (warp + 1) * share);
  for (int step = warp * share; step < last; ++step) {
    Rank ranks[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i)
      ranks[i] = rank_at(p, scores, step * kStep + i * kLanes + lane);
    for (int i = 0; i < kAtOnce; ++i)
      work(step * kStep + i * kLanes, find(ranks[i], cut), ranks[i]);
  }
}

// Writes the positions above the cut and the first `left` of those at it, ascending.
template <int kThreads>
__device__ void write_kept(const KeepBest& p, const float* scores, Rank cut, unsigned left,
                           std::int32_t* indices, Memory<kThreads>& memory) {
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  unsigned above = 0, equal = 0;
  for_each_lane_row<kThreads>(p, scores, cut, [&](int, const Found& found, Rank) {
    above += static_cast<unsigned>(__popc(found.above));
    equal += static_cast<unsigned>(__popc(found.equal));
  });
  if (lane == 0) memory.above[warp] = above;
  if (lane == 0) memory.equal[warp] = equal;
  __syncthreads();  // each warp's counts are there
  above = equal = 0;
  for (int i = 0; i < warp; ++i) above += memory.above[i], equal += memory.equal[i];
  const unsigned lower = (1U << lane) - 1;
  for_each_lane_row<kThreads>(p, scores, cut, [&](int first, const Found& found, Rank rank) {
    const unsigned above_here = above + static_cast<unsigned>(__popc(found.above & lower));
    const unsigned equal_here = equal + static_cast<unsigned>(__popc(found.equal & lower));
    if (rank != kNone && (rank > cut || (rank == cut && equal_here < left)))
      indices[above_here + min(equal_here, left)] = first + lane;
    above += static_cast<unsigned>(__popc(found.above));
    equal += static_cast<unsigned>(__popc(found.equal));
  });
}

// Grid: rows.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) keep_best_kernel(KeepBest p) {
  auto& memory = block_memory<Memory<kThreads>>();
  const int row = blockIdx.x;
  const float* scores = p.scores + row * p.row_stride;
  Rank cut = 0;
  unsigned left = static_cast<unsigned>(p.kept);
  for (int digit = 0; digit < kDigits; ++digit) {
    find_digit(p, scores, digit, cut, left, memory);
    cut |= static_cast<Rank>(memory.bucket) << digit_shift(digit);
    left = memory.left;
  }
  if (threadIdx.x == 0) {
    p.num_forced[row] = cut >> 32 != 0 ? p.kept : static_cast<std::int64_t>(memory.forced);
    p.ties_at_cut[row] = memory.members - left;
  }
  write_kept(p, scores, cut, left, p.indices + static_cast<std::int64_t>(row) * p.kept, memory);
}

template <int kThreads>
cudaError_t launch(const KeepBest& p, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(p.rows);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = sizeof(Memory<kThreads>);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, keep_best_kernel<kThreads>, p);
}

}  // namespace

cudaError_t launch_keep_best(const KeepBest& p, cudaStream_t stream) {
  if (p.rows < 1 || p.kept < 1 || p.kept > p.count) return cudaErrorInvalidValue;
  if (p.count <= 512) return launch<64>(p, stream);
  return p.count <= 4096 ? launch<256>(p, stream) : launch<1024>(p, stream);
}

}  // namespace kvloupe::cuda
