// Lanes, cancel, supersede by tag, the exclusive timing lane, and results on the owner's thread.
#include "core/base/jobs.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe {
namespace {

using namespace std::chrono_literals;
using Result = std::shared_ptr<const int>;

constexpr auto kPatience = 10s;

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// A job that waits until the test opens the gate (or until it is cancelled).
struct Gate {
  std::promise<void> opener;
  std::shared_future<void> opened = opener.get_future().share();
  std::atomic<int> entered{0};

  int pass(const WorkContext& context, int value) {
    ++entered;
    while (opened.wait_for(1ms) != std::future_status::ready) context.cancel.throw_if_cancelled();
    return value;
  }
};

class JobsTest : public testing::Test {
 protected:
  void submit(Lane lane, const std::string& tag, std::function<int(const WorkContext&)> work) {
    jobs_.submit<int>(
        lane, tag, "job " + tag,
        [work = std::move(work)](const WorkContext& context) -> Result {
          return std::make_shared<const int>(work(context));
        },
        [this](const Result& result) {
          delivered_.push_back(*result);
          delivered_on_ = std::this_thread::get_id();
        },
        [this](const Error& error) { errors_.push_back(error); });
  }
  // Publishes until nothing is left.
  bool drain() {
    return eventually([this] {
      jobs_.publish();
      return jobs_.idle();
    });
  }

  std::vector<int> delivered_;
  std::vector<Error> errors_;
  std::thread::id delivered_on_;
  JobSystem jobs_;
};

TEST_F(JobsTest, ResultsArriveOnTheThreadThatPublishes) {
  std::atomic<bool> woken{false};
  jobs_.set_wake([&] { woken = true; });
  submit(Lane::Compute, "a", [](const WorkContext&) { return 7; });
  ASSERT_TRUE(eventually([&] { return woken.load(); }));
  EXPECT_TRUE(delivered_.empty());
  EXPECT_FALSE(jobs_.idle());
  EXPECT_EQ(jobs_.publish(), 1);
  EXPECT_EQ(delivered_, std::vector<int>{7});
  EXPECT_EQ(delivered_on_, std::this_thread::get_id());
  EXPECT_TRUE(jobs_.idle());
}

TEST_F(JobsTest, OneLaneKeepsTheOrderAndLanesRunBesideEachOther) {
  Gate io;
  Gate compute;
  submit(Lane::TraceIo, "io", [&](const WorkContext& c) { return io.pass(c, 1); });
  submit(Lane::Compute, "first", [&](const WorkContext& c) { return compute.pass(c, 2); });
  submit(Lane::Compute, "second", [&](const WorkContext&) { return 3; });
  ASSERT_TRUE(eventually([&] { return io.entered == 1 && compute.entered == 1; }));
  const auto status = jobs_.status();
  ASSERT_EQ(status.size(), 3u);
  EXPECT_EQ(status[0].tag, "io");
  EXPECT_TRUE(status[0].running);
  EXPECT_EQ(status[2].tag, "second");
  EXPECT_FALSE(status[2].running);
  compute.opener.set_value();
  io.opener.set_value();
  ASSERT_TRUE(drain());
  ASSERT_EQ(delivered_.size(), 3u);
  EXPECT_LT(std::find(delivered_.begin(), delivered_.end(), 2),
            std::find(delivered_.begin(), delivered_.end(), 3));
}

// A command has the processor to itself; beside a window what takes long gives way to drawing.
TEST_F(JobsTest, LongJobsStepBackWhereThereIsAWindow) {
  const auto niceness = [](const WorkContext&) {
    return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  };
  const int ours = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  submit(Lane::Whole, "command", niceness);
  ASSERT_TRUE(drain());
  EXPECT_EQ(delivered_, std::vector<int>{ours});
  jobs_.set_wake([] {});
  for (const char* tag : {"first", "second"}) {
    delivered_.clear();
    submit(Lane::TraceIo, tag, niceness);
    ASSERT_TRUE(drain());
    submit(Lane::Compute, tag, niceness);
    ASSERT_TRUE(drain());
    submit(Lane::Whole, tag, niceness);
    ASSERT_TRUE(drain());
    submit(Lane::Command, tag, niceness);
    ASSERT_TRUE(drain());
    const int after_short = std::min(ours + 5, 19), after_long = std::min(ours + 15, 19);
    EXPECT_EQ(delivered_, (std::vector<int>{ours, after_short, after_long, after_short}));
  }
  jobs_.set_wake(nullptr);
}

TEST_F(JobsTest, ANewerJobOfTheSameTagDropsAndCancelsTheOlder) {
  std::promise<void> opener;
  std::atomic<bool> entered{false}, second_ran{false}, cancelled{false};
  submit(Lane::Compute, "scrub", [&, opened = opener.get_future().share()](const WorkContext& c) {
    entered = true;
    opened.wait();
    cancelled = c.cancel.cancelled();
    return 1;
  });
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  submit(Lane::Compute, "scrub", [&](const WorkContext&) {
    second_ran = true;
    return 2;
  });
  submit(Lane::Compute, "scrub", [](const WorkContext&) { return 3; });
  opener.set_value();
  ASSERT_TRUE(drain());
  EXPECT_EQ(delivered_, std::vector<int>{3});
  EXPECT_TRUE(errors_.empty());
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(second_ran);  // it was still waiting
}

TEST_F(JobsTest, AFinishedResultIsNotDeliveredOnceSuperseded) {
  std::atomic<int> finished{0};
  jobs_.set_wake([&] { ++finished; });
  submit(Lane::Compute, "a", [](const WorkContext&) { return 1; });
  ASSERT_TRUE(eventually([&] { return finished == 1; }));
  submit(Lane::TraceIo, "a", [](const WorkContext&) { return 2; });
  ASSERT_TRUE(drain());
  EXPECT_EQ(delivered_, std::vector<int>{2});
}

TEST_F(JobsTest, CancelIsSilent) {
  Gate gate;
  submit(Lane::Compute, "a", [&](const WorkContext& c) { return gate.pass(c, 1); });
  ASSERT_TRUE(eventually([&] { return gate.entered == 1; }));
  jobs_.cancel("a");
  ASSERT_TRUE(drain());
  EXPECT_TRUE(delivered_.empty());
  EXPECT_TRUE(errors_.empty());
}

TEST_F(JobsTest, WhatTheUserGivesUpSaysSoAtOnce) {
  Gate gate;
  submit(Lane::Compute, "runs", [&](const WorkContext& c) { return gate.pass(c, 1); });
  ASSERT_TRUE(eventually([&] { return gate.entered == 1; }));
  submit(Lane::Compute, "waits", [](const WorkContext&) { return 2; });
  for (const char* tag : {"runs", "waits", "runs", "unknown"}) jobs_.give_up(tag);
  EXPECT_EQ(errors_.size(), 2U) << "each job once";
  for (const Error& error : errors_) EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
  ASSERT_TRUE(drain());
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(errors_.size(), 2U);
}

TEST_F(JobsTest, WorkThatIgnoresItsCancelFlagIsNotDeliveredEither) {
  std::promise<void> opener;
  auto opened = opener.get_future().share();
  std::atomic<bool> entered{false};
  submit(Lane::Compute, "a", [&, opened](const WorkContext&) {
    entered = true;
    opened.wait();
    return 1;
  });
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  jobs_.cancel_all();
  opener.set_value();
  ASSERT_TRUE(drain());
  EXPECT_TRUE(delivered_.empty());
}

TEST_F(JobsTest, ExceptionsBecomeErrorsAtTheBoundary) {
  submit(Lane::Compute, "a",
         [](const WorkContext&) -> int { throw input_error("what", "why", "remedy"); });
  submit(Lane::Compute, "b", [](const WorkContext&) -> int { throw std::runtime_error("boom"); });
  submit(Lane::Compute, "c", [](const WorkContext&) -> int { throw 5; });
  submit(Lane::Compute, "d", [](const WorkContext&) { return 1; });
  ASSERT_TRUE(drain());
  ASSERT_EQ(errors_.size(), 3u);
  EXPECT_STREQ(errors_[0].what(), "what; why; remedy");
  EXPECT_EQ(errors_[1].kind(), ErrorKind::Internal);
  EXPECT_EQ(errors_[1].why(), "boom");
  EXPECT_EQ(delivered_, std::vector<int>{1});  // the lane goes on
}

TEST_F(JobsTest, NoOtherLaneStartsAJobWhileTimingRuns) {
  Gate timing;
  std::atomic<int> others{0};
  submit(Lane::Timing, "t", [&](const WorkContext& c) { return timing.pass(c, 1); });
  ASSERT_TRUE(eventually([&] { return timing.entered == 1; }));
  submit(Lane::Compute, "a", [&](const WorkContext&) { return ++others; });
  submit(Lane::TraceIo, "b", [&](const WorkContext&) { return ++others; });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(others, 0);
  timing.opener.set_value();
  ASSERT_TRUE(drain());
  EXPECT_EQ(others, 2);
}

TEST_F(JobsTest, TimingWaitsUntilTheOtherLanesAreQuiet) {
  Gate compute;
  Gate timing;
  submit(Lane::Compute, "a", [&](const WorkContext& c) { return compute.pass(c, 1); });
  ASSERT_TRUE(eventually([&] { return compute.entered == 1; }));
  submit(Lane::Timing, "t", [&](const WorkContext& c) { return timing.pass(c, 2); });
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(timing.entered, 0);
  compute.opener.set_value();
  EXPECT_TRUE(eventually([&] { return timing.entered == 1; }));
  timing.opener.set_value();
  ASSERT_TRUE(drain());
  EXPECT_EQ(delivered_, (std::vector<int>{1, 2}));
}

TEST_F(JobsTest, ProgressIsSeenWhileTheJobRuns) {
  Gate gate;
  submit(Lane::TraceIo, "a", [&](const WorkContext& c) {
    c.report(3, 10, "reading");
    return gate.pass(c, 1);
  });
  ASSERT_TRUE(eventually([&] { return gate.entered == 1; }));
  const auto status = jobs_.status();
  ASSERT_EQ(status.size(), 1u);
  EXPECT_EQ(status[0].done, 3);
  EXPECT_EQ(status[0].total, 10);
  EXPECT_EQ(status[0].stage, "reading");
  EXPECT_EQ(status[0].title, "job a");
  gate.opener.set_value();
  ASSERT_TRUE(drain());
}

TEST_F(JobsTest, ACallbackMaySubmitAndCancel) {
  jobs_.submit<int>(
      Lane::Compute, "outer", "outer",
      [](const WorkContext&) -> Result { return std::make_shared<const int>(1); },
      [this](const Result&) {
        submit(Lane::Compute, "inner", [](const WorkContext&) { return 2; });
        jobs_.cancel("nobody");
      },
      nullptr);
  ASSERT_TRUE(drain());
  EXPECT_EQ(delivered_, std::vector<int>{2});
}

TEST(JobsLifetimeTest, DestructionCancelsRunningAndQueuedJobs) {
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  {
    JobSystem jobs;
    const auto endless = [&](const WorkContext& context) -> Result {
      entered = true;
      while (!context.cancel.cancelled()) std::this_thread::sleep_for(1ms);
      left = true;
      return nullptr;
    };
    jobs.submit<int>(Lane::Compute, "a", "a", endless, nullptr, nullptr);
    jobs.submit<int>(Lane::Compute, "b", "b", endless, nullptr, nullptr);
    ASSERT_TRUE(eventually([&] { return entered.load(); }));
  }
  EXPECT_TRUE(left);
}

// A freed flag is seen by the address sanitizer.
TEST(InterruptDeathTest, ASignalWhileTheProgramEndsIsNoFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit([] { std::raise(SIGTERM); });  // after all that is made later was destroyed
        const CancelToken token = interrupt_token();
        std::exit(token.cancelled() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

// A terminal tells the window and what the window runs, and then the window tells that again.
TEST(InterruptDeathTest, OnePressThatComesTwiceEndsInOrderAndALaterOneAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const CancelToken token = interrupt_token();
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::raise(SIGTERM);
        std::exit(token.cancelled() ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        interrupt_token();
        std::raise(SIGINT);
        std::this_thread::sleep_for(1100ms);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace kvloupe
