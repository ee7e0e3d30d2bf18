// What the emulator refuses.
#include "core/cuda/emulator/emulator.h"

#include <gtest/gtest.h>

namespace kvloupe::cuda {
namespace {

TEST(EmulatedKernels, LaunchesThatCannotBeAreRefused) {
  const auto nothing = [] {};
  EXPECT_FALSE(emulator::launch({0, 1, 1}, {32, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {1025, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {32, 1, 1}, emulator::kMostSharedMemory + 1, nothing));
  int threads = 0;
  EXPECT_TRUE(emulator::launch({2, 3, 1}, {5, 2, 1}, 0, [&] { ++threads; }));
  EXPECT_EQ(threads, 2 * 3 * 5 * 2);
}

TEST(EmulatedKernelsDeath, TouchingSharedMemoryBeyondItsEndFaults) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      emulator::launch({1, 1, 1}, {1, 1, 1}, 64,
                       [] { static_cast<volatile char*>(emulator::shared_memory(64))[64] = 1; }),
      "");
}

}  // namespace
}  // namespace kvloupe::cuda
