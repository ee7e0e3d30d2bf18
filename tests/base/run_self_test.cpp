// Command lines in a process of their own: what they end with, and that a cancelled one ends in order.
#include "core/base/run_self.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

// This program refuses words (tests/test_main.cpp).
TEST(RunSelf, GivesTheLastLineOfAFailureUnlessItWasCancelled) {
  EXPECT_THAT(run_self({"export"}, {}), HasSubstr("it takes no export"));
  CancelSource cancel;
  cancel.cancel();
  try {
    run_self({"export"}, cancel.token());
    ADD_FAILURE() << "it was cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
  }
}

constexpr const char* kStarted = "KVLOUPE_TEST_STARTED";

// What the next test runs: it says that it has started and waits to be interrupted.
TEST(RunSelfHere, DISABLED_Waits) {
  const char* started = std::getenv(kStarted);
  ASSERT_NE(started, nullptr);
  std::ofstream(started).put('\n');
  while (true) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(RunSelfHere, InterruptsWhatItStartedOnceCancelled) {
  const TemporaryFolder folder;
  const fs::path started = folder / "started";
  ::setenv(kStarted, started.c_str(), 1);
  CancelSource cancel;
  std::thread user([&] {
    while (!fs::exists(started)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    cancel.cancel();
  });
  const int code = run_self_here(
      {"--gtest_also_run_disabled_tests", "--gtest_filter=RunSelfHere.DISABLED_Waits"},
      cancel.token());
  user.join();
  ::unsetenv(kStarted);
  EXPECT_EQ(code, 130);
  EXPECT_EQ(run_self_here({"export"}), 2);
}

TEST(OwnCommand, IsInterruptedAndWaitedForOnceCancelled) {
  const TemporaryFolder folder;
  const fs::path part = folder / "part";
  const std::string script = "trap 'rm " + part.string() + "; exit 130' INT; touch " +
                             part.string() + "; while :; do sleep 0.02; done";
  OwnCommand command({"-c", script},
                     {.program = "/bin/sh", .standard_input = {}, .keep_output = false});
  CancelSource cancel;
  std::thread user([&] {
    while (!fs::exists(part)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    cancel.cancel();
  });
  command.finish(cancel.token());
  user.join();
  EXPECT_TRUE(command.ended());
  EXPECT_EQ(command.exit_code(), 130);
  EXPECT_FALSE(fs::exists(part));
}

}  // namespace
}  // namespace kvloupe
