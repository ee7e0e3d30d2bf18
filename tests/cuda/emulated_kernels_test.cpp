// The CUDA kernels as host code, against plain loops in fp64: in several orders of threads, with
// memory that faults beyond its ends, and with each barrier left out in turn, which must show.
#include "core/cuda/chunk_attention.cuh"
#include "core/cuda/emulator/emulator.h"
#include "tests/cuda/chunk_attention_case.h"
#include "tests/cuda/device_array.h"

#include <gtest/gtest.h>

#include <set>

namespace kvloupe::cuda {
namespace {

using testing::Inputs;
using testing::Results;
using testing::Shape;

using DeviceNumbers = testing::DeviceArray<float>;

bool same_bits(const Results& a, const Results& b) {
  return testing::same_bits(a.output, b.output) && testing::same_bits(a.lse, b.lse) &&
         testing::same_bits(a.key_mass, b.key_mass);
}

class ChunkCase {
 public:
  explicit ChunkCase(const Shape& shape)
      : shape_(shape), inputs_(shape), q_(inputs_.q), k_(inputs_.k), v_(inputs_.v) {}

  Results run() const {
    const DeviceNumbers output(shape_.num_q()), lse(shape_.num_lse()), mass(shape_.num_mass());
    ChunkAttention problem = testing::problem_of(shape_);
    problem.q = q_.data();
    problem.k = k_.data();
    problem.v = v_.data();
    problem.output = output.data();
    problem.lse = lse.data();
    problem.key_mass = mass.data();
    EXPECT_EQ(launch_chunk_attention(problem, nullptr), cudaSuccess);
    return {output.copy(), lse.copy(), mass.copy()};
  }
  testing::Errors errors(const Results& got) const {
    return testing::errors_of(shape_, inputs_, got);
  }

 private:
  Shape shape_;
  Inputs inputs_;
  DeviceNumbers q_, k_, v_;
};

class EmulatedKernels : public ::testing::Test {
 protected:
  void TearDown() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier({});
  }
};

TEST_F(EmulatedKernels, ChunkAttentionIsThatOfPlainLoops) {
  for (const Shape& shape : testing::shapes()) {
    SCOPED_TRACE(::testing::Message()
                 << shape.rows() << " rows of " << shape.dim << " after " << shape.past);
    const ChunkCase one(shape);
    const Results first = one.run();
    const testing::Errors errors = one.errors(first);
    EXPECT_TRUE(testing::are_small(errors))
        << errors.output << ", " << errors.lse << ", " << errors.key_mass;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      EXPECT_TRUE(same_bits(one.run(), first))
          << "another order of threads gives other bits: " << seed;
    }
    emulator::set_schedule(0);
  }
}

TEST_F(EmulatedKernels, EveryBarrierOfChunkAttentionIsNeeded) {
  const ChunkCase one({1, 2, 40, 100, 64});
  const Results right = one.run();
  const std::set<emulator::Site> sites = emulator::barrier_sites_in("chunk_attention.cu");
  EXPECT_EQ(sites.size(), 8U);
  for (const emulator::Site& site : sites) {
    emulator::leave_out_barrier(site);
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      wrong += same_bits(one.run(), right) ? 0 : 1;
    }
    EXPECT_GT(wrong, 0) << "without the barrier of line " << site.line << " nothing changes";
  }
}

TEST_F(EmulatedKernels, LaunchesThatCannotBeAreRefused) {
  const auto nothing = [] {};
  EXPECT_FALSE(emulator::launch({0, 1, 1}, {32, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {1025, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {32, 1, 1}, emulator::kMostSharedMemory + 1, nothing));
  int threads = 0;
  EXPECT_TRUE(emulator::launch({2, 3, 1}, {5, 2, 1}, 0, [&] { ++threads; }));
  EXPECT_EQ(threads, 2 * 3 * 5 * 2);
}

using EmulatedKernelsDeath = EmulatedKernels;

TEST_F(EmulatedKernelsDeath, TouchingSharedMemoryBeyondItsEndFaults) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      emulator::launch({1, 1, 1}, {1, 1, 1}, 64,
                       [] { static_cast<volatile char*>(emulator::shared_memory(64))[64] = 1; }),
      "");
}

}  // namespace
}  // namespace kvloupe::cuda
