// What tests ask of kernels in the emulator: the same results in any order of threads, and no barrier that
// nobody needs.
#pragma once

#include "core/base/error.h"
#include "core/cuda/emulator/emulator.h"
#include "tests/cuda/device_array.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace kvloupe::cuda::testing {

class EmulatedTest : public ::testing::Test {
 protected:
  void TearDown() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier({});
  }

  // In eight orders of threads the results of `run` are those of the first.
  template <typename Run>
  static void expect_the_same_in_all_orders(const Run& run) {
    const auto first = run();
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      EXPECT_TRUE(same(run(), first)) << "another order of threads gives other bits: " << seed;
    }
    emulator::set_schedule(0);
  }

  // Each barrier of the file shows when it is left out.
  template <typename Run>
  static void expect_all_barriers_needed(std::string_view file, std::size_t count, const Run& run) {
    const auto right = run();
    const std::set<emulator::Site> sites = emulator::barrier_sites_in(file);
    EXPECT_EQ(sites.size(), count) << file;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      EXPECT_TRUE(still_right(run, right)) << "with all barriers";
    }
    for (const emulator::Site& site : sites) {
      emulator::leave_out_barrier(site);
      int wrong = 0;
      for (std::uint64_t seed = 1; seed <= 8 && wrong == 0; ++seed) {
        emulator::set_schedule(seed);
        wrong += still_right(run, right) ? 0 : 1;
      }
      EXPECT_GT(wrong, 0) << "without the barrier of " << file << ":" << site.line
                          << " nothing changes";
    }
    emulator::leave_out_barrier({});
  }

 private:
  template <typename Results>
  static bool same(const Results& a, const Results& b) {
    return a == b;
  }
  template <typename T>
  static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return same_bits(a, b);
  }

  // Whether `run` without a barrier gives `right`. In a process of its own: it may touch what is not
  // there, or never end.
  template <typename Run, typename Results>
  static bool still_right(const Run& run, const Results& right) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      std::freopen("/dev/null", "w", stderr);
      try {
        ::_exit(same(run(), right) ? 0 : 1);
      } catch (const Error&) {  // lanes wait in vain
        ::_exit(1);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

}  // namespace kvloupe::cuda::testing
