// How rounds are timed and which count, and what a report says of them.
#include "core/measure/timing.h"
#include "core/device/threads.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/latency.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>
#include <time.h>

namespace kvloupe::measure {
namespace {

void spin(double ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(ms);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(StatsOf, MedianAndQuartiles) {
  const LatencyStats odd = stats_of({5, 1, 3, 2, 4});
  EXPECT_EQ(odd.median_ms, 3);
  EXPECT_EQ(odd.q25_ms, 2);
  EXPECT_EQ(odd.q75_ms, 4);
  EXPECT_EQ(odd.samples, 5);
  const LatencyStats even = stats_of({4, 1, 2, 3});
  EXPECT_EQ(even.median_ms, 2.5);
  EXPECT_EQ(even.q25_ms, 1.75);
  EXPECT_EQ(stats_of({7}).q75_ms, 7);
  EXPECT_EQ(stats_of({}).samples, 0);
}

TEST(TimeRounds, SidesTakeTurnsAndWarmUpDoesNotCount) {
  std::string course;
  RoundOptions options{.repetitions = 3, .warm_up = 1, .threads = 64};
  const auto prepare = [&] { course += '.'; };
  const RoundTimes times = time_rounds(
      {{"a", [&] { course += 'a'; }, prepare}, {"b", [&] { course += 'b'; }}}, options, {});
  EXPECT_EQ(course, ".ab.ab.ab.ab");
  EXPECT_EQ(times.stats(0).samples, 3);
  EXPECT_EQ(times.stats(1).samples, 3);
  EXPECT_EQ(times.discarded, 0);
}

// That a GPU's clocks are not known is said.
TEST(LatencyReport, SaysUnderWhatConditionsAGpuWasTimed) {
  LatencyReport report;
  report.device = "cpu, 2 threads (a processor)";
  report.total.samples = 3;
  EXPECT_EQ(report.gpu_words(), "");
  report.device = "cuda:0 (a card)";
  EXPECT_EQ(report.gpu_words(), kUnknownConditions);
  report.gpu = GpuConditions{.rounds = 3, .throttled = 0};
  EXPECT_EQ(report.gpu_words(), words_of(*report.gpu));
}

// Clocks held down after the second and the third round, the first that counts among them.
TEST(TimeRounds, RoundsOfAThrottledGpuAreThrownAwayAndCounted) {
  int asked = 0;
  RoundOptions options{.repetitions = 3, .warm_up = 1, .threads = 64};
  options.watch = [&] {
    ++asked;
    return device::GpuState{1700 + 10 * asked, 2619, 300.0 + asked, 60 + asked,
                            asked == 2 || asked == 3};
  };
  const RoundTimes times = time_rounds({{"a", [] {}}}, options, {});
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(times.stats(0).samples, 3);
  EXPECT_EQ(times.discarded, 2);
  const GpuConditions& gpu = times.gpu.value();
  EXPECT_EQ(gpu.rounds, 3);
  EXPECT_EQ(gpu.throttled, 2);
  EXPECT_EQ(gpu.least_sm_mhz, 1740);
  EXPECT_EQ(gpu.largest_sm_mhz, 1760);
  EXPECT_EQ(gpu.least_memory_mhz, 2619);
  EXPECT_EQ(gpu.most_power_w, 306);
  EXPECT_EQ(gpu.most_celsius, 66);
  EXPECT_EQ(words_of(gpu),
            "GPU at 1,740 to 1,760 MHz, memory 2,619 MHz, up to 306 W and 66 C, throttled in 2 "
            "rounds, which do not count");
  EXPECT_FALSE(time_rounds({{"a", [] {}}}, {.repetitions = 1, .threads = 64}, {}).gpu);
}

// A laptop's GPU tells neither, a virtual one of some drivers one of them: its clocks are known all the same.
TEST(TimeRounds, PowerAndHeatAreLeftOutWhereTheyAreNotTold) {
  using Told = std::pair<std::optional<double>, std::optional<int>>;
  for (const auto& [told, words] :
       {std::pair{Told{}, "GPU at 1,980 MHz, memory 2,619 MHz"},
        std::pair{Told{300.0, std::nullopt}, "GPU at 1,980 MHz, memory 2,619 MHz, up to 300 W"},
        std::pair{Told{std::nullopt, 60}, "GPU at 1,980 MHz, memory 2,619 MHz, up to 60 C"}}) {
    RoundOptions options{.repetitions = 2, .warm_up = 0, .threads = 64};
    const device::GpuState state{1980, 2619, told.first, told.second, false};
    options.watch = [state] { return state; };
    const GpuConditions gpu = time_rounds({{"a", [] {}}}, options, {}).gpu.value();
    EXPECT_EQ(gpu.most_power_w, told.first);
    EXPECT_EQ(gpu.most_celsius, told.second);
    EXPECT_EQ(words_of(gpu), words);
  }
}

TEST(TimeRounds, TimesWhatItRuns) {
  const RoundTimes times = time_rounds({{"short", [] { spin(2); }}, {"long", [] { spin(8); }}},
                                       {.repetitions = 5, .warm_up = 0, .threads = 64}, {});
  EXPECT_GE(times.stats(0).median_ms, 2);
  EXPECT_GE(times.stats(1).median_ms, 8);
  EXPECT_LT(times.stats(0).median_ms, times.stats(1).median_ms);
  EXPECT_EQ(fastest_of(times, 0, 2), 0U);
}

TEST(TimeRounds, RoundsBesideOtherThreadsOfOursAreThrownAway) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
    }
  });
  // One thread may run and two do, in every round; for as long as the other gets a core, too, which a busy
  // machine may give it late.
  clockid_t clock = {};
  ::pthread_getcpuclockid(other.native_handle(), &clock);
  const auto ran_ms = [&] {
    timespec now = {};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  };
  const auto own_ms = [] {
    timespec now = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  };
  bool ran_beside = false;
  const auto spin_beside = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const double other_before = ran_ms(), own_before = own_ms();
    spin(40);
    const double half =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count() /
        2;
    ran_beside |= ran_ms() - other_before > half && own_ms() - own_before > half;
  };
  RoundTimes times;
  for (int i = 0; i < 50 && !ran_beside; ++i)
    times = time_rounds({{"a", spin_beside}}, {.repetitions = 3, .warm_up = 0, .threads = 1}, {});
  stop = true;
  other.join();
  ASSERT_TRUE(ran_beside) << "the machine had no second core for 6 seconds";
  EXPECT_GE(times.discarded, 1);
  EXPECT_TRUE(times.stats(0).samples == 3 || times.discarded + times.stats(0).samples == 9);
}

TEST(TimeRounds, CancelStopsBetweenParts) {
  CancelSource source;
  bool second = false;
  EXPECT_THROW(time_rounds({{"a", [&] { source.cancel(); }}, {"b", [&] { second = true; }}}, {},
                           {source.token(), {}}),
               Error);
  EXPECT_FALSE(second);
}

// A peak that was measured on a busy machine is too low: attention then took less than it allows.
TEST(LatencyReport, AFloorThatATimeWentBelowIsNone) {
  LatencyReport report;
  report.attend.median_ms = 2.1;
  EXPECT_FALSE(report.floor_holds()) << "none was found";
  report.floor_ms = 2;
  EXPECT_TRUE(report.floor_holds());
  report.attend.median_ms = 1.5;
  EXPECT_FALSE(report.floor_holds());
}

}  // namespace
}  // namespace kvloupe::measure
