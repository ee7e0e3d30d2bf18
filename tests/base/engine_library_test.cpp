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

TEST(EngineLibraryTest, IsThereForAllWhoAskedOnceLoadReturns) {
  EXPECT_FALSE(engine_loaded());
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      load_engine();
      if (engine_loaded() && engine_table("kvloupe_engine") != nullptr) ++served;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 8);
  EXPECT_NE(engine_table("kvloupe_capture_engine"), nullptr);
}

TEST(EngineLibraryTest, ATableThatItHasNotIsASentence) {
  try {
    engine_table("kvloupe_engine_of_another_version");
    FAIL() << "a table was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
  }
}

// The program asks the tables for what it calls: nothing of the engine is bound by name.
TEST(EngineLibraryTest, ShowsItsNamesToNobodyElse) {
  constexpr const char* kFunction = "_ZN7kvloupe6device11num_threadsEv";
  Dl_info where{};
  ASSERT_NE(::dladdr(engine_table("kvloupe_engine"), &where), 0);
  void* engine = ::dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(engine, nullptr);
  EXPECT_NE(::dlsym(engine, kFunction), nullptr)
      << "the engine has no such function: look for another";
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, kFunction), nullptr);
}

}  // namespace
}  // namespace kvloupe
