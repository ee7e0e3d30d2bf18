// The engine is loaded once, whoever asks, and its absence is a sentence.
#include "core/base/engine_library.h"
#include "core/base/error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace kvloupe {
namespace {

// A function of core/device, which this program is not linked to.
bool engine_can_be_called() {
  return ::dlsym(RTLD_DEFAULT, "_ZN7kvloupe6device11num_threadsEv") != nullptr;
}

TEST(EngineLibraryTest, IsThereForAllWhoAskedOnceLoadReturns) {
  EXPECT_FALSE(engine_loaded());
  EXPECT_FALSE(engine_can_be_called());
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      load_engine();
      if (engine_loaded() && engine_can_be_called()) ++served;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 8);
}

}  // namespace
}  // namespace kvloupe
