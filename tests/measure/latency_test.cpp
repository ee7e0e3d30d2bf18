// The course of a measurement: what is reported, counted and thrown away, and that the baselines
// compute what they claim to.
#include "core/measure/latency.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/device/threads.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/timing.h"
#include "core/replay/compare.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace kvloupe::measure {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

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
  options.prepare = [&] { course += '.'; };
  const RoundTimes times =
      time_rounds({{"a", [&] { course += 'a'; }}, {"b", [&] { course += 'b'; }}}, options, {});
  EXPECT_EQ(course, ".ab.ab.ab.ab");
  EXPECT_EQ(times.stats(0).samples, 3);
  EXPECT_EQ(times.stats(1).samples, 3);
  EXPECT_EQ(times.discarded, 0);
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
  // One thread may run and two do, in every round.
  const RoundTimes times =
      time_rounds({{"a", [] { spin(40); }}}, {.repetitions = 3, .warm_up = 0, .threads = 1}, {});
  stop = true;
  other.join();
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

TEST(DenseBaseline, AllVariantsAreTheChunksDenseAttention) {
  at::manual_seed(5);
  const at::Tensor q = at::randn({6, 9, 16}), k = at::randn({2, 40, 16}),
                   v = at::randn({2, 40, 16});
  const at::Tensor want = attention::dense_chunk_attention(q, k, v, 0.25, false).output;
  const DenseBaseline baseline(q, k, v, 0.25);
  for (const at::Tensor& got :
       {baseline.run_gqa(), baseline.run_expanded(), baseline.run_folded()}) {
    ASSERT_EQ(got.sizes(), want.sizes());
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-5);
  }
}

LatencyReport measure(const SmallTrace& trace, const char* spec, int chunk,
                      int* samples = nullptr) {
  return measure_latency(trace.session(), selection::MethodSpec::parse(spec), 1, chunk,
                         {.repetitions = 3, .warm_up = 1}, {}, [&](const LatencyReport&) {
                           if (samples != nullptr) ++*samples;
                         });
}

TEST(MeasureLatency, ReportsItsParts) {
  const SmallTrace trace;
  int rounds = 0;
  const LatencyReport report = measure(trace, "quoka:budget_tokens=8", 2, &rounds);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(rounds, report.total.samples + report.discarded);
  EXPECT_EQ(report.past_len, 32);
  EXPECT_EQ(report.chunk_len, 16);
  EXPECT_EQ(report.dtype, "fp32");
  EXPECT_EQ(report.device.substr(0, 5), "cpu, ");
  EXPECT_EQ(report.dense_variant.substr(0, 5), "sdpa ");
  EXPECT_EQ(report.method.substr(0, 22), "quoka:budget_tokens=8,");
  EXPECT_FALSE(report.paged);
  if (report.total.samples == 0) GTEST_SKIP() << "every round was disturbed";
  for (const LatencyStats& part : {report.select, report.gather, report.attend, report.dense}) {
    EXPECT_EQ(part.samples, report.total.samples);
    EXPECT_GT(part.median_ms, 0);
    EXPECT_LE(part.q25_ms, part.median_ms);
    EXPECT_LE(part.median_ms, part.q75_ms);
  }
  EXPECT_GE(report.total.median_ms, report.select.median_ms);
}

TEST(MeasureLatency, WholePagesAreReadWhereTheyLie) {
  const SmallTrace trace;
  EXPECT_TRUE(measure(trace, "quest:budget_tokens=8,page_size=4,skip_layers=0", 2).paged);
  // Dense by the method's rule: nothing is selected.
  EXPECT_FALSE(measure(trace, "quest:budget_tokens=8,page_size=4,skip_layers=2", 2).paged);
}

TEST(MeasureLatency, EveryMethodAndKindOfCell) {
  SmallTraceShape shape;
  shape.num_layers = 6;
  shape.probe_len = 3;
  shape.decoded = 1;
  const SmallTrace trace(shape);
  replay::MethodList list = replay::parse_methods("all:budget_tokens=8,basis=self");
  EXPECT_EQ(list.specs.size() + list.unavailable.size(), selection::catalogue().size());
  std::vector<selection::MethodSpec>& specs = list.specs;
  for (const char* more :
       {"streaming_llm:budget_tokens=8,positions=reassigned", "snapkv:budget_tokens=8,state=select",
        "oracle:budget_tokens=8,budget_scope=all"})
    specs.push_back(selection::MethodSpec::parse(more));
  for (const selection::MethodSpec& spec : specs)
    for (const int chunk : {0, 3, 4})
      EXPECT_TRUE(
          measure_latency(trace.session(), spec, 4, chunk, {.repetitions = 1, .warm_up = 1}, {}, {})
              .finished)
          << spec.id();
  EXPECT_THROW(measure(trace, "dense", 5), Error);
}

TEST(MeasureLatency, RefusesWhatTheTraceCannotServe) {
  SmallTraceShape shape;
  shape.num_layers = 6;
  shape.layers = {0, 1, 4};
  const SmallTrace trace(shape);
  for (const char* spec : {"infinipot:budget_tokens=8", "aqua",
                           "tidal_decode:budget_tokens=8,first_layer=2,correction_layer=3"})
    EXPECT_THROW(
        measure_latency(trace.session(), selection::MethodSpec::parse(spec), 4, 2, {}, {}, {}),
        Error)
        << spec;
}

}  // namespace
}  // namespace kvloupe::measure
