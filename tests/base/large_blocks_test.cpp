// What a thread has freed between blocks that stay goes back to the system, where the program asked for it.
#include "core/base/large_blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

// A sanitizer has its own allocator.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace kvloupe {
namespace {

// glibc takes each of 128 KB and more from the system by itself.
constexpr std::size_t kBlock = 60 << 10, kBlocks = 2000;  // 117 MB

// Anonymous, resident, of this process.
std::int64_t resident_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;)
    if (std::int64_t kilobytes = 0; word == "Anonymous:" && rollup >> kilobytes)
      return kilobytes << 10;
  ADD_FAILURE() << "no anonymous memory is told";
  return 0;
}

TEST(LargeBlocks, WhatIsFreedOfAnySizeGoesBack) {
  std::thread([] {
    std::vector<std::vector<char>> blocks;
    for (std::size_t i = 0; i < kBlocks; ++i) blocks.emplace_back(kBlock, 'x');
    const std::int64_t full = resident_bytes();
    for (std::size_t i = 0; i < kBlocks; ++i)
      if (i % 20 != 0) std::vector<char>().swap(blocks[i]);
    give_back_freed(1U << 30);
    EXPECT_GT(resident_bytes(), full - (30 << 20)) << "the process has not asked for it";
    give_back_large_blocks();
    give_back_freed(1U << 20);
    EXPECT_GT(resident_bytes(), full - (30 << 20)) << "so little is not worth it";
    give_back_freed(100U << 20);
    EXPECT_LT(resident_bytes(), full - (90 << 20));
    for (std::size_t i = 0; i < kBlocks; i += 20) EXPECT_EQ(blocks[i].back(), 'x');
  }).join();
}

}  // namespace
}  // namespace kvloupe

#endif
