// A block keeps the best of a part of a row that it holds in shared memory. Of a long row what the parts
// kept is the row of the next launch, in which the parts are fewer, until one is left. In a block counts of
// the bits of the ranks, from the top, find the rank at the cut; then each warp writes what it finds in its
// share of the part, in order.
#include "core/cuda/keep_best.cuh"

#include "core/cuda/rank_value.cuh"
#include "core/cuda/shared_memory.cuh"
#include "core/cuda/start.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvloupe::cuda {
namespace {

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kAtOnce = 4;  // loads under way in a thread

// The score; where some are forced, whether this one is, in bit 32 above it. No score has all bits.
using Score = unsigned;
using ForcedOrScore = unsigned long long;
template <typename Rank>
constexpr Rank kNone = ~Rank{0};

constexpr int kDigitBits = 12;
constexpr int kBuckets = 1 << kDigitBits;

// Ranks that a block holds: 64 KiB, which every device of ours has room for beside the histogram.
constexpr int kPart = 1 << 14;

// What a part left out that equals the last one it kept.
struct LeftOut {
  ForcedOrScore cut;
  std::int64_t ties;
};

// One launch: rows of `count` candidates, cut into parts of equal length, but the last.
struct Level {
  const std::int32_t* from = nullptr;  // [rows, count] positions, ascending; null: all of the row
  std::int32_t* to = nullptr;          // [rows, left]
  int count = 0, part = 0, parts = 1;
  int left = 0;  // so many candidates the parts keep together
  // [rows, all_parts], of this level from first_part on; null: no row is cut.
  LeftOut* left_out = nullptr;
  int first_part = 0, all_parts = 0;
};

// kHeld: room for so many ranks of the part; 0: they are read anew each time.
template <typename Rank, int kThreads, int kHeld>
struct Memory {
  static constexpr int kWarps = kThreads / kLanes;
  unsigned histogram[kBuckets];
  Rank lowest[kWarps], highest[kWarps];
  unsigned above[kWarps], equal[kWarps];
  // Of the bucket where the cut lies: its number, how many of its ranks are kept, how many it has.
  unsigned bucket, left, members;
  unsigned forced;
  unsigned values[kHeld > 0 ? kHeld : 1];
};

// The part of a row that a block has.
template <typename Rank, int kThreads, int kHeld>
struct Part {
  const KeepBest& p;
  Memory<Rank, kThreads, kHeld>& memory;
  const float* scores;
  const std::int32_t* from;  // of the part; null: consecutive positions
  int first = 0;             // position of its first candidate
  int count = 0;
  int kept = 0;

  __device__ int position(int i) const { return from != nullptr ? from[i] : first + i; }
  __device__ bool is_forced(int i) const {
    return sizeof(Rank) > sizeof(Score) && p.forced[position(i)] != 0;
  }
  __device__ Rank rank(int i) const {
    if (i >= count) return kNone<Rank>;
    const unsigned value = kHeld > 0 ? memory.values[i] : rank_value(scores[position(i)]);
    if constexpr (sizeof(Rank) == sizeof(Score)) return value;
    return static_cast<Rank>(is_forced(i) ? 1ULL << 32 | value : value);
  }
};

// Ranks less `low` are numbers of so many bits.
template <typename Rank>
struct Range {
  Rank low = 0;
  int bits = sizeof(Rank) == sizeof(Score) ? 32 : 33;
};

// Of the lanes of a warp.
template <typename Rank>
__device__ void least_and_most(Rank& lowest, Rank& highest) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    lowest = min(lowest, __shfl_xor_sync(kAllLanes, lowest, step));
    highest = max(highest, __shfl_xor_sync(kAllLanes, highest, step));
  }
}

// Takes the part into shared memory. The range of its ranks spreads them over the buckets.
template <typename Rank, int kThreads, int kHeld>
__device__ Range<Rank> hold(const Part<Rank, kThreads, kHeld>& part) {
  Memory<Rank, kThreads, kHeld>& memory = part.memory;
  Rank lowest = kNone<Rank>, highest = 0;
  for (int base = threadIdx.x; base < part.count; base += kThreads * kAtOnce) {
    float scores[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = base + i * kThreads;
      scores[i] = at < part.count ? part.scores[part.position(at)] : 0;
    }
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = base + i * kThreads;
      if (at >= part.count) break;
      memory.values[at] = rank_value(scores[i]);
      lowest = min(lowest, part.rank(at));
      highest = max(highest, part.rank(at));
    }
  }
  least_and_most(lowest, highest);
  if (threadIdx.x % kLanes == 0) {
    memory.lowest[threadIdx.x / kLanes] = lowest;
    memory.highest[threadIdx.x / kLanes] = highest;
  }
  __syncthreads();  // the ends of each warp's ranks, and the ranks, are there
  // Every warp does the same with the ends of all.
  const int warp = min(static_cast<int>(threadIdx.x) % kLanes, kThreads / kLanes - 1);
  lowest = memory.lowest[warp], highest = memory.highest[warp];
  least_and_most(lowest, highest);
  return {lowest, 64 - __clzll(static_cast<long long>(highest - lowest))};
}

// Of the lanes up to this one.
__device__ unsigned sum_to(unsigned own) {
  const int lane = threadIdx.x % kLanes;
  for (int step = 1; step < kLanes; step *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, own, step);
    if (lane >= step) own += other;
  }
  return own;
}

// Of what the warps have, a number each. Every warp does the same, but for which sum it takes.
__device__ unsigned sum_of_warps_before(const unsigned* numbers, int warps) {
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const unsigned own = lane < warps ? numbers[lane] : 0;
  return __shfl_sync(kAllLanes, sum_to(own) - own, warp);
}

// How many the threads before this one have.
template <typename Rank, int kThreads, int kHeld>
__device__ unsigned sum_before(unsigned own, Memory<Rank, kThreads, kHeld>& memory) {
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const unsigned sum = sum_to(own);
  if (lane == kLanes - 1) memory.above[warp] = sum;
  __syncthreads();  // the sums of all warps are there
  return sum_of_warps_before(memory.above, kThreads / kLanes) + sum - own;
}

// The rank at the cut, so far: its bits from `end` on. The first `left` of the `members` candidates that
// have these bits are kept.
template <typename Rank>
struct Cut {
  Rank bits = 0;  // less Range::low
  int end = 0;
  unsigned left = 0, members = 0;

  // All bits of a rank may be below the digit.
  __device__ Rank above(Rank value) const {
    return end < 32 || sizeof(Rank) > 4 ? value >> end : 0;
  }
  __device__ Rank of(Rank rank, Rank low) const { return above(rank - low); }
  __device__ Rank here() const { return above(bits); }
};

// Counts the candidates at the cut by the next digit and finds where the `left`-th largest of them is.
// Each thread has neighbouring buckets, thread 0 the largest.
template <typename Rank, int kThreads, int kHeld>
__device__ void find_digit(const Part<Rank, kThreads, kHeld>& part, Rank low, Cut<Rank>& cut) {
  Memory<Rank, kThreads, kHeld>& memory = part.memory;
  constexpr int kOwn = kBuckets / kThreads;
  const int shift = max(0, cut.end - kDigitBits);
  const unsigned mask = (1U << (cut.end - shift)) - 1;
  const int top = kBuckets - 1 - static_cast<int>(threadIdx.x) * kOwn;
  for (int i = 0; i < kOwn; ++i) memory.histogram[top - i] = 0;
  __syncthreads();  // the histogram is empty
  for (int base = threadIdx.x; base < part.count; base += kThreads * kAtOnce) {
    Rank ranks[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) ranks[i] = part.rank(base + i * kThreads);
    for (const Rank rank : ranks)
      if (rank != kNone<Rank> && cut.of(rank, low) == cut.here())
        atomicAdd(&memory.histogram[static_cast<unsigned>((rank - low) >> shift) & mask], 1U);
  }
  __syncthreads();  // all are counted
  unsigned own = 0;
  for (int i = 0; i < kOwn; ++i) own += memory.histogram[top - i];
  unsigned before = sum_before(own, memory);
  if (before < cut.left && cut.left <= before + own) {
    int bucket = top;
    for (; cut.left > before + memory.histogram[bucket]; --bucket)
      before += memory.histogram[bucket];
    memory.bucket = static_cast<unsigned>(bucket);
    memory.left = cut.left - before;
    memory.members = memory.histogram[bucket];
  }
  __syncthreads();  // the bucket is found
  cut.bits |= static_cast<Rank>(memory.bucket) << shift;
  cut.end = shift;
  cut.left = memory.left;
  cut.members = memory.members;
}

// Which lanes of the warp have a rank above the cut, and which one at it.
struct Found {
  unsigned above, equal;
};

// Runs work(first candidate, what its warp finds there) over the warp's share of the part.
template <typename Rank, int kThreads, int kHeld, typename Work>
__device__ void for_each_lane_row(const Part<Rank, kThreads, kHeld>& part, Rank low,
                                  const Cut<Rank>& cut, const Work& work) {
  constexpr int kStep = kLanes * kAtOnce;
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int steps = (part.count + kStep - 1) / kStep;
  const int share = (steps + kThreads / kLanes - 1) / (kThreads / kLanes);
  const int last = min(steps, (warp + 1) * share);
  for (int step = warp * share; step < last; ++step) {
    Rank ranks[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) ranks[i] = part.rank(step * kStep + i * kLanes + lane);
    for (int i = 0; i < kAtOnce; ++i) {
      const bool is_there = ranks[i] != kNone<Rank>;
      const Rank here = cut.of(ranks[i], low);
      work(step * kStep + i * kLanes,
           Found{__ballot_sync(kAllLanes, is_there && here > cut.here() ? 1 : 0),
                 __ballot_sync(kAllLanes, is_there && here == cut.here() ? 1 : 0)});
    }
  }
}

// Writes the positions above the cut and the first of those at it, ascending.
template <typename Rank, int kThreads, int kHeld>
__device__ void write_kept(const Part<Rank, kThreads, kHeld>& part, Rank low, const Cut<Rank>& cut,
                           std::int32_t* to) {
  Memory<Rank, kThreads, kHeld>& memory = part.memory;
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  unsigned above = 0, equal = 0;
  for_each_lane_row(part, low, cut, [&](int, const Found& found) {
    above += static_cast<unsigned>(__popc(found.above));
    equal += static_cast<unsigned>(__popc(found.equal));
  });
  if (lane == 0) memory.above[warp] = above;
  if (lane == 0) memory.equal[warp] = equal;
  __syncthreads();  // each warp's counts are there
  above = sum_of_warps_before(memory.above, kThreads / kLanes);
  equal = sum_of_warps_before(memory.equal, kThreads / kLanes);
  const unsigned own = 1U << lane, lower = own - 1;
  for_each_lane_row(part, low, cut, [&](int first, const Found& found) {
    const unsigned above_here = above + static_cast<unsigned>(__popc(found.above & lower));
    const unsigned equal_here = equal + static_cast<unsigned>(__popc(found.equal & lower));
    if ((found.above & own) != 0 || ((found.equal & own) != 0 && equal_here < cut.left)) {
      to[above_here + min(equal_here, cut.left)] = part.position(first + lane);
      if (part.is_forced(first + lane)) atomicAdd(&memory.forced, 1U);
    }
    above += static_cast<unsigned>(__popc(found.above));
    equal += static_cast<unsigned>(__popc(found.equal));
  });
}

// Grid: rows times parts.
template <typename Rank, int kThreads, int kHeld>
__global__ void __launch_bounds__(kThreads) keep_best_kernel(KeepBest p, Level level) {
  auto& memory = block_memory<Memory<Rank, kThreads, kHeld>>();
  const int row = blockIdx.x / level.parts, at = blockIdx.x % level.parts;
  const int first = at * level.part;
  Part<Rank, kThreads, kHeld> part{p, memory, p.scores + row * p.row_stride, nullptr, first};
  part.count = min(level.part, level.count - first);
  part.kept = min(p.kept, part.count);
  if (level.from != nullptr)
    part.from = level.from + static_cast<std::int64_t>(row) * level.count + first;
  if (threadIdx.x == 0) memory.forced = 0;
  Range<Rank> range;
  if constexpr (kHeld > 0) range = hold(part);
  Cut<Rank> cut;
  cut.end = range.bits;
  cut.left = static_cast<unsigned>(part.kept);
  cut.members = static_cast<unsigned>(part.count);
  // Where all at the cut are kept, their order is of no interest; but the last part compares ranks.
  const bool is_last = level.parts == 1, compares = is_last && level.left_out != nullptr;
  while (cut.end > 0 && (compares || cut.left != cut.members)) find_digit(part, range.low, cut);
  write_kept(part, range.low, cut,
             level.to + static_cast<std::int64_t>(row) * level.left + at * p.kept);
  __syncthreads();  // what is forced is counted
  if (threadIdx.x != 0) return;
  std::int64_t ties = cut.members - cut.left;
  LeftOut* const left_out = compares || !is_last
                                ? level.left_out + static_cast<std::int64_t>(row) * level.all_parts
                                : nullptr;
  if (!is_last) {
    left_out[level.first_part + at] = {cut.bits + range.low, ties};
    return;
  }
  for (int i = 0; i < (compares ? level.all_parts : 0); ++i)
    if (left_out[i].cut == cut.bits + range.low) ties += left_out[i].ties;
  p.num_forced[row] = memory.forced;
  p.ties_at_cut[row] = ties;
}

template <typename Rank, int kThreads, int kHeld>
cudaError_t launch(const KeepBest& p, const Level& level, cudaStream_t stream) {
  return start(keep_best_kernel<Rank, kThreads, kHeld>,
               dim3(static_cast<unsigned>(p.rows) * static_cast<unsigned>(level.parts)), kThreads,
               sizeof(Memory<Rank, kThreads, kHeld>), stream, p, level);
}

template <typename Rank>
cudaError_t launch_level(const KeepBest& p, const Level& level, cudaStream_t stream) {
  if (level.part <= 512) return launch<Rank, 64, 512>(p, level, stream);
  if (level.part <= 2048) return launch<Rank, 256, 2048>(p, level, stream);
  return level.part <= kPart ? launch<Rank, 1024, kPart>(p, level, stream)
                             : launch<Rank, 1024, 0>(p, level, stream);
}

// Cuts rows of `count` candidates where parts keep at most half of what they have. Where a row is long the
// parts are as long as what they keep together, if a block can hold that: both launches take the same time.
Level cut_rows(int count, int kept) {
  Level level;
  level.count = count;
  if (count > kPart && kept <= kPart / 2) level.parts = (count + kPart - 1) / kPart;
  if (count > kPart / 2 && kept <= count / 4 && kept <= kPart / 2)
    level.parts = std::max(level.parts, static_cast<int>(std::sqrt(count / kept)));
  level.part = (count + level.parts - 1) / level.parts;
  level.left = (level.parts - 1) * kept + std::min(kept, count - (level.parts - 1) * level.part);
  return level;
}

bool is_possible(const KeepBest& p) { return p.rows >= 1 && p.kept >= 1 && p.kept <= p.count; }

// Parts and positions of all levels but the last.
struct Scratch {
  std::int64_t parts = 0, positions = 0;
  explicit Scratch(const KeepBest& p) {
    for (Level level = cut_rows(p.count, p.kept); level.parts > 1;
         level = cut_rows(level.left, p.kept))
      parts += level.parts, positions += level.left;
  }
};

}  // namespace

std::size_t keep_best_scratch(const KeepBest& p) {
  if (!is_possible(p)) return 0;
  const Scratch needed(p);
  return static_cast<std::size_t>(p.rows) *
         (needed.parts * sizeof(LeftOut) + needed.positions * sizeof(std::int32_t));
}

cudaError_t launch_keep_best(const KeepBest& p, cudaStream_t stream) {
  if (!is_possible(p)) return cudaErrorInvalidValue;
  const Scratch needed(p);
  if (needed.parts > 0 && p.scratch == nullptr) return cudaErrorInvalidValue;
  auto* const left_out = needed.parts > 0 ? static_cast<LeftOut*>(p.scratch) : nullptr;
  auto* to = reinterpret_cast<std::int32_t*>(left_out + p.rows * needed.parts);
  const std::int32_t* from = nullptr;
  int first_part = 0;
  for (Level level = cut_rows(p.count, p.kept);; level = cut_rows(level.left, p.kept)) {
    level.from = from;
    level.to = level.parts > 1 ? to : p.indices;
    level.left_out = left_out;
    level.first_part = first_part;
    level.all_parts = static_cast<int>(needed.parts);
    const cudaError_t status = p.forced != nullptr ? launch_level<ForcedOrScore>(p, level, stream)
                                                   : launch_level<Score>(p, level, stream);
    if (status != cudaSuccess || level.parts == 1) return status;
    first_part += level.parts;
    from = to;
    to += static_cast<std::int64_t>(p.rows) * level.left;
  }
}

}  // namespace kvloupe::cuda
