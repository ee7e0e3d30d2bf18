// What kernels may ask of the emulator beside their threads and the barrier of a block. Each test would
// fail were the operation a no-op.
#include "core/cuda/emulator/emulator.h"
#include "core/base/error.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/row_attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime_api.h>

namespace kvloupe::cuda::emulator {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

class Emulator : public ::testing::Test {
 protected:
  void TearDown() override {
    set_schedule(0);
    leave_out_barrier({});
    set_most_shared_memory(kMostSharedMemory);
  }

  static void run(unsigned threads, const std::function<void()>& body, std::size_t bytes = 0) {
    EXPECT_TRUE(launch({1, 1, 1}, {threads, 1, 1}, bytes, body));
  }
  // How many of 16 orders of threads give what `run` says.
  static int orders_with(const std::function<bool()>& run) {
    int count = 0;
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
      set_schedule(seed);
      count += run() ? 1 : 0;
    }
    set_schedule(0);
    return count;
  }
};

TEST_F(Emulator, TellsBarriersApartByFileAndLine) {
  const Site ours{"emulated_a.cu", 7}, other{"emulated_b.cu", 7};
  // Thread 0 reads what thread 1 wrote before the barrier of that place.
  const auto read = [&](const Site& site) {
    int written = 0, seen = 0;
    run(2, [&] {
      if (threadIdx.x == 1) written = 1;
      barrier(site);
      if (threadIdx.x == 0) seen = written;
    });
    return seen;
  };
  EXPECT_EQ(read(ours) + read(other), 2);
  EXPECT_EQ(barrier_sites_in("emulated_a.cu"), std::set<Site>{ours});
  EXPECT_TRUE(barrier_lines().contains(7));
  leave_out_barrier(ours);
  EXPECT_EQ(read(ours), 0);
  EXPECT_EQ(read(other), 1);
  leave_out_barrier(7U);
  EXPECT_EQ(read(other), 0);
  EXPECT_EQ(site_of("/some/folder/emulated_a.cu", 7), ours);
}

TEST_F(Emulator, KnowsTheExtentOfBlockAndGrid) {
  int right = 0;
  EXPECT_TRUE(launch({2, 3, 1}, {5, 2, 1}, 0, [&] {
    right += blockDim.x == 5 && blockDim.y == 2 && gridDim.x == 2 && gridDim.y == 3 ? 1 : 0;
  }));
  EXPECT_EQ(right, 2 * 3 * 5 * 2);
}

void empty_kernel() {}

TEST_F(Emulator, RefusesTheGridsThatCudaRefuses) {
  const auto nothing = [] {};
  constexpr unsigned kMost = 65'535;
  EXPECT_TRUE(launch({1, kMost, 1}, {1, 1, 1}, 0, nothing));
  EXPECT_TRUE(launch({kMost + 1, 1, 1}, {1, 1, 1}, 0, nothing));
  EXPECT_FALSE(launch({1, kMost + 1, 1}, {1, 1, 1}, 0, nothing));
  EXPECT_FALSE(launch({1, 1, kMost + 1}, {1, 1, 1}, 0, nothing));
  EXPECT_FALSE(launch({1U << 31, 1, 1}, {1, 1, 1}, 0, nothing));
  EXPECT_FALSE(launch({1, 1, 1}, {1, 1, 65}, 0, nothing));
  // As a kernel learns of it.
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, 1, kMost + 1);
  EXPECT_EQ(cudaLaunchKernelEx(&config, empty_kernel), cudaErrorInvalidConfiguration);
}

// Such as that of the RTX series and the L4.
constexpr std::size_t kOfASmallCard = 99 << 10;

TEST_F(Emulator, MayHaveTheSharedMemoryOfASmallerCard) {
  set_most_shared_memory(kOfASmallCard);
  const auto nothing = [] {};
  EXPECT_TRUE(launch({1, 1, 1}, {1, 1, 1}, kOfASmallCard, nothing));
  EXPECT_FALSE(launch({1, 1, 1}, {1, 1, 1}, kOfASmallCard + 1, nothing));
  int told = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&told, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  EXPECT_EQ(told, static_cast<int>(kOfASmallCard));
  EXPECT_EQ(cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(kOfASmallCard) + 1),
            cudaErrorInvalidValue);
}

// In fp32 the tile of many rows of wide heads has no room there: a smaller one does the same.
TEST_F(Emulator, AttentionOfWideHeadsFitsASmallerCard) {
  set_most_shared_memory(kOfASmallCard);
  const std::vector<testing::Case> wide = {{.name = "dense, wide head",
                                            .kind = testing::Kind::Dense,
                                            .kv_heads = 1,
                                            .group = 1,
                                            .chunk_len = 33,
                                            .past = 95,
                                            .dim = kMaxHeadDim}};
  for (const testing::Case& c : testing::in_all_types(wide)) {
    const testing::PlacedCase<testing::DeviceArray> placed(c);
    ASSERT_EQ(placed.attend(), cudaSuccess) << testing::name_of(c.type);
    ASSERT_EQ(placed.add_mass(), cudaSuccess) << testing::name_of(c.type);
    const testing::Errors errors = testing::errors_of(c, testing::Inputs(c), placed.results());
    EXPECT_TRUE(testing::are_small(errors)) << testing::name_of(c.type) << ": " << errors.output;
  }
}

TEST_F(Emulator, AtomicsAddAndGiveTheOldValue) {
  const auto counts = [] {
    unsigned number = 0;
    unsigned long long wide = 1ULL << 40;
    float sum = 0;
    int largest = -5;
    std::set<unsigned> places;
    run(96, [&] {
      places.insert(atomicAdd(&number, 1U));
      atomicAdd(&wide, 2ULL);
      atomicAdd(&sum, 0.5F);
      atomicMax(&largest, static_cast<int>(threadIdx.x) % 50);
    });
    return number == 96 && places.size() == 96 && *places.rbegin() == 95 &&
           wide == (1ULL << 40) + 192 && sum == 48 && largest == 49;
  };
  EXPECT_TRUE(counts());
  EXPECT_EQ(orders_with(counts), 16);
}

TEST_F(Emulator, AnotherThreadMayComeBeforeAnAtomic) {
  // Each thread looks before it adds: on a GPU several see nothing yet.
  EXPECT_GT(orders_with([] {
              int winners = 0, taken = 0;
              run(32, [&] {
                if (taken != 0) return;
                atomicAdd(&winners, 1);
                taken = 1;
              });
              return winners > 1;
            }),
            0);
}

TEST_F(Emulator, LanesExchangeValues) {
  const auto right = [] {
    std::array<std::array<double, 5>, 64> got{};
    run(64, [&] {
      const unsigned thread = threadIdx.x;
      const double own = thread;
      double sum = own;
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
      got[thread] = {sum, __shfl_down_sync(kAll, own, 3), __shfl_up_sync(kAll, own, 3),
                     __shfl_sync(kAll, own, 9),
                     static_cast<double>(__ballot_sync(kAll, thread % 3 == 0))};
    });
    bool all = true;
    for (unsigned thread = 0; thread < 64; ++thread) {
      const unsigned lane = thread % 32, first = thread - lane;
      unsigned bits = 0;
      for (unsigned i = 0; i < 32; ++i) bits |= ((first + i) % 3 == 0 ? 1U : 0U) << i;
      const std::array<double, 5> want = {32.0 * first + 496, thread + (lane < 29 ? 3.0 : 0.0),
                                          thread - (lane >= 3 ? 3.0 : 0.0), first + 9.0,
                                          static_cast<double>(bits)};
      all = all && got[thread] == want;
    }
    return all;
  };
  EXPECT_TRUE(right());
  EXPECT_EQ(orders_with(right), 16);
}

TEST_F(Emulator, AWarpMayRunAheadOfAnother) {
  // Lanes meet again and again, but nothing holds their warps together.
  const auto is_ahead = [] {
    int steps = 0, seen = 0;
    run(64, [&] {
      for (int i = 0; i < 8; ++i) {
        if (threadIdx.x == 40) seen = steps;
        __syncwarp();
        if (threadIdx.x == 0) ++steps;
      }
    });
    return std::pair(seen == 0, seen == 8);
  };
  EXPECT_GT(orders_with([&] { return is_ahead().first; }), 0);
  EXPECT_GT(orders_with([&] { return is_ahead().second; }), 0);
}

TEST_F(Emulator, HalvesOfAWarpMayMeetApart) {
  std::array<unsigned, 32> got{};
  run(32, [&] {
    const unsigned lane = threadIdx.x;
    got[lane] = lane < 16 ? __ballot_sync(0xFFFFU, 1) : __shfl_xor_sync(0xFFFF0000U, lane, 1);
  });
  for (unsigned lane = 0; lane < 32; ++lane)
    EXPECT_EQ(got[lane], lane < 16 ? 0xFFFFU : (lane ^ 1U));
}

TEST_F(Emulator, TheBarrierOfAWarpOrdersItsLanes) {
  unsigned line = 0;
  const auto right = [&] {
    std::array<int, 32> written{}, seen{};
    run(32, [&] {
      written[threadIdx.x] = 1;
      line = __LINE__ + 1;
      __syncwarp();
      seen[threadIdx.x] = written[31 - threadIdx.x];
    });
    return std::accumulate(seen.begin(), seen.end(), 0) == 32;
  };
  EXPECT_EQ(orders_with(right), 16);
  leave_out_barrier(Site{"emulator_test.cpp", line});
  EXPECT_EQ(orders_with(right), 0);
}

TEST_F(Emulator, LanesThatComeInVainAreAnError) {
  // One lane has ended.
  EXPECT_THROW(run(32,
                   [] {
                     if (threadIdx.x != 5) __syncwarp();
                   }),
               Error);
  // Some wait for the block, the others for them.
  EXPECT_THROW(run(32,
                   [] {
                     if (threadIdx.x < 4) __syncthreads();
                     __ballot_sync(kAll, 1);
                   }),
               Error);
  // Two places, two masks, a lane outside its own, lanes that the block does not have.
  EXPECT_THROW(run(32, [] { warp_barrier({"a.cu", threadIdx.x < 16 ? 1U : 2U}, kAll); }), Error);
  EXPECT_THROW(run(32, [] { __ballot_sync(threadIdx.x < 16 ? kAll : 0xFFFF0000U, 1); }), Error);
  EXPECT_THROW(run(32, [] { __syncwarp(0xFFFF); }), Error);
  EXPECT_THROW(run(40, [] { __syncwarp(); }), Error);
  // The value of a lane that is not there.
  EXPECT_THROW(run(32,
                   [] {
                     if (threadIdx.x < 16) __shfl_xor_sync(0xFFFFU, 1, 16);
                   }),
               Error);
  EXPECT_NO_THROW(run(40, [] { __syncwarp(threadIdx.x < 32 ? kAll : 0xFFU); }));
}

TEST_F(Emulator, CopiesArriveWhenTheyAreWaitedFor) {
  std::array<float, 8> from = {1, 2, 3, 4, 5, 6, 7, 8};
  // What the thread sees before it waits, after all but one group, after all.
  const auto seen = [&] {
    alignas(16) std::array<float, 8> to{};
    std::array<float, 6> parts{};
    run(1, [&] {
      for (std::size_t i = 0; i < 8; i += 4) {
        __pipeline_memcpy_async(&to[i], &from[i], 4);
        __pipeline_commit();
      }
      parts[0] = to[0], parts[1] = to[4];
      __pipeline_wait_prior(1);
      parts[2] = to[0], parts[3] = to[4];
      __pipeline_wait_prior(0);
      parts[4] = to[0], parts[5] = to[4];
    });
    return parts;
  };
  EXPECT_EQ(seen(), (std::array<float, 6>{0, 0, 1, 0, 1, 5}));
  // In other orders some come earlier.
  const int early = orders_with([&] { return seen()[1] == 5; });
  EXPECT_GT(early, 0);
  EXPECT_LT(early, 16);
  alignas(16) std::array<float, 8> to{};
  EXPECT_THROW(run(1, [&] { __pipeline_memcpy_async(&to[1], &from[0], 16); }), Error);
}

}  // namespace
}  // namespace kvloupe::cuda::emulator
