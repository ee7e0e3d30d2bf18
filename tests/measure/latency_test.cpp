// What a measurement reports.
#include "core/measure/latency.h"

#include "core/base/error.h"
#include "core/base/work_count.h"
#include "core/device/device_work.h"
#include "core/measure/attention_bench.h"
#include "core/measure/cell_source.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/method_run.h"
#include "core/measure/timing.h"
#include "core/replay/compare.h"
#include "core/selection/attend.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

#include <ATen/ATen.h>

#include <set>
#include <thread>

namespace kvloupe::measure {
namespace {

using replay::testing::SmallTrace;

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
  EXPECT_THAT(report.dense_variant, ::testing::AnyOf("kvloupe", StartsWith("sdpa ")));
  EXPECT_EQ(report.method.substr(0, 22), "quoka:budget_tokens=8,");
  EXPECT_EQ(report.reads, KvReads::Copies);
  if (report.total.samples == 0) GTEST_SKIP() << "every round was disturbed";
  for (const LatencyStats& part : {report.select, report.gather, report.attend, report.dense}) {
    EXPECT_EQ(part.samples, report.total.samples);
    EXPECT_GT(part.median_ms, 0);
    EXPECT_LE(part.q25_ms, part.median_ms);
    EXPECT_LE(part.median_ms, part.q75_ms);
  }
  EXPECT_FALSE(report.dense_reason);
  EXPECT_TRUE(report.executed);
  EXPECT_DOUBLE_EQ(report.speedup().value(), report.dense.median_ms / report.total.median_ms);
  EXPECT_GT(report.floor_ms, 0);
}

// Each round runs the method twice, whole and in parts, and every form of dense attention once.
TEST(MeasureLatency, TheTotalIsOfAChainBesideTheParts) {
  const SmallTrace trace;
  const auto spec = selection::MethodSpec::parse("quoka:budget_tokens=8");
  const auto cells = trace_cells(trace.session(), spec, 2);
  MethodRun run(trace.session(), spec, *cells, 1, {});
  run.prepare({});
  const DenseBaseline dense(run.cell().q, run.cell().k, run.cell().v, run.cell().softmax);
  const auto products_of = [](const auto& work) {
    const WorkCount count;
    work();
    return count.key_products();
  };
  const std::int64_t chain = products_of([&] {
    run.select();
    run.gather();
    run.attend();
  });
  const std::int64_t all_dense = products_of([&] {
    for (const TimedPart& part : dense.parts()) part.run();
  });
  ASSERT_GT(chain, 0);
  int rounds = 0;
  const std::int64_t measured = products_of([&] {
    measure_latency(trace.session(), spec, 1, 2, {.repetitions = 2, .warm_up = 0}, {},
                    [&](const LatencyReport&) { ++rounds; });
  });
  EXPECT_EQ(measured, rounds * (2 * chain + all_dense));
}

// Everything runs there, in host memory: what it takes is no device's time.
TEST(MeasureLatency, OnSimEveryPartRunsAndNoSpeedIsGiven) {
  const SmallTrace trace;
  for (const char* spec :
       {"quoka:budget_tokens=8", "quest:budget_tokens=8,page_size=4,skip_layers=0",
        "aqua:basis=self", "flash_prefill:block_size=8,lowering=native"})
    for (const std::optional<std::int64_t> past : {std::optional<std::int64_t>(), {40}}) {
      const LatencyReport report = measure_latency(
          trace.session(), selection::MethodSpec::parse(spec), 1, 2,
          {.repetitions = 2, .warm_up = 0, .past_len = past, .device = "sim"}, {}, {});
      EXPECT_THAT(report.device, StartsWith("sim, ")) << spec;
      EXPECT_EQ(report.total.samples + report.discarded, 2 + report.discarded) << spec;
      EXPECT_FALSE(report.executed) << spec;
      EXPECT_FALSE(report.speedup()) << spec;
    }
}

// The host starts as many kernels and waits as often as capture makes it: select_there(), then attend_selected(),
// without copies in between. On cells of one shape and type, and other numbers.
TEST(MeasureLatency, AndTheBenchmarkAskOfADeviceWhatCaptureAsks) {
  const SmallTrace trace({.num_q_heads = 24,
                          .num_kv_heads = 8,
                          .head_dim = 128,
                          .chunk_lengths = {16, 16, 16, 16, 16},
                          .dtype = trace::DType::F16});
  const device::DeviceInfo sim = device::open_device("sim");
  for (const char* text :
       {"quoka:budget_tokens=16,num_queries=4", "quest:budget_tokens=16,page_size=8,skip_layers=0",
        "compact_attention:selector=flash_prefill,block_size=16"}) {
    const auto spec = selection::MethodSpec::parse(text).resolved(trace.session().shape());
    const auto layout = selection::row_layout(spec, trace.session().shape());
    const auto cells = trace_cells(trace.session(), spec, 4, "sim");
    const auto selector = selection::make_selector(spec, trace.session().shape());
    selector->select(cells->load(1, 3));
    const selection::Cell cell = cells->load(1, 4);
    selection::CellSelection selected;
    const auto select =
        device::count_device_work(sim, [&] { selected = selector->select_there(cell); });
    const auto attend = device::count_device_work(sim, [&] {
      selection::attend_selected(spec, trace.session().info().model, cell, layout, selected);
    });
    ASSERT_TRUE(select && attend && selected.chooses_keys()) << text;
    const auto live = measure_latency(trace.session(), spec, 1, 4,
                                      {.repetitions = 1, .warm_up = 0, .device = "sim"}, {}, {})
                          .counts;
    const auto bench = bench_attention({64, 16, spec, SyntheticKeys::Random, "sim"}, 1, {}).counts;
    for (const auto& counts : {live, bench}) {
      ASSERT_TRUE(counts) << text;
      EXPECT_EQ(counts->chain.launches, select->launches + attend->launches) << text;
      EXPECT_EQ(counts->chain.host_waits, select->host_waits + attend->host_waits) << text;
      // What was chosen stays where it is; pages and blocks the host makes tables of.
      EXPECT_EQ(counts->chain.host_waits, spec.id() == "quoka" ? 0 : 1) << text;
    }
  }
}

// Where the device has kernels for it; the same numbers everywhere.
TEST(MeasureLatency, ComputesInTheTypeOfTheTrace) {
  const auto spec = selection::MethodSpec::parse("quoka:budget_tokens=8");
  for (const trace::DType dtype : {trace::DType::F16, trace::DType::F32}) {
    const SmallTrace trace({.dtype = dtype});
    const bool narrow = dtype == trace::DType::F16;
    const selection::Cell on_cpu = trace_cells(trace.session(), spec, 2)->load(1, 2),
                          on_sim = trace_cells(trace.session(), spec, 2, "sim")->load(1, 2);
    EXPECT_EQ(on_cpu.k.scalar_type(), at::kFloat);
    EXPECT_EQ(on_sim.k.scalar_type(), narrow ? at::kHalf : at::kFloat);
    for (const auto member : {&selection::Cell::q, &selection::Cell::k, &selection::Cell::v})
      EXPECT_TRUE(at::equal((on_sim.*member).cpu().to(at::kFloat), on_cpu.*member));
    const auto type_on = [&](const char* device) {
      return measure_latency(trace.session(), spec, 1, 2,
                             {.repetitions = 1, .warm_up = 0, .device = device}, {}, {})
          .dtype;
    };
    EXPECT_EQ(type_on("cpu"), "fp32");
    EXPECT_EQ(type_on("sim"), narrow ? "fp16" : "fp32");
  }
}

// The kept keys' bytes are counted in that type.
TEST(MeasureLatency, TheFloorIsThatOfTheType) {
  const SmallTrace trace({.dtype = trace::DType::F16});
  const auto spec = selection::MethodSpec::parse("sliding_window:budget_tokens=8");
  const auto work_on = [&](const char* device) {
    const auto cells = trace_cells(trace.session(), spec, 2, device);
    MethodRun run(trace.session(), spec, *cells, 1, {});
    run.prepare({});
    run.select();
    return run.attention_work();
  };
  EXPECT_DOUBLE_EQ(work_on("sim").bytes, work_on("cpu").bytes / 2);
  EXPECT_DOUBLE_EQ(work_on("sim").flops, work_on("cpu").flops);
}

// Each way to attend gives in 16 bits what it gives in fp32, to their rounding.
TEST(MethodRun, AttendsIn16BitsAsInFp32) {
  const SmallTrace trace({.dtype = trace::DType::F16});
  for (const char* text :
       {"dense", "quoka:budget_tokens=8", "quest:budget_tokens=8,page_size=4,skip_layers=0",
        "flash_prefill:block_size=8,lowering=native", "aqua:basis=self", "aqua_h2o:basis=self",
        "streaming_llm:budget_tokens=8,positions=reassigned"}) {
    const auto spec = selection::MethodSpec::parse(text);
    const auto output_on = [&](const char* device) {
      const auto cells = trace_cells(trace.session(), spec, 2, device);
      MethodRun run(trace.session(), spec, *cells, 1, {});
      run.prepare({});
      run.select();
      run.gather();
      return run.attend().cpu().to(at::kFloat);
    };
    const at::Tensor narrow = output_on("sim"), wide = output_on("cpu");
    EXPECT_TRUE(at::allclose(narrow, wide, 4e-3, 4e-3))
        << text << ": off by " << (narrow - wide).abs().max().item<double>();
  }
}

// What was chosen on the device is attended to as the host's rows are, which are the CPU's. In a window, positions
// are those of the text all the same.
TEST(AttendSelected, TakesAChoiceThatLiesOnTheDevice) {
  for (const int window : {0, 20}) {
    const SmallTrace trace({.window = window});
    for (const char* text :
         {"quoka:budget_tokens=8", "uniform_queries:budget_tokens=8",
          "snapkv:state=select,budget_tokens=8", "keydiff:state=select,budget_tokens=8",
          "sample_attention:budget_tokens=8", "sparq:budget_tokens=8", "oracle:budget_tokens=8"}) {
      SCOPED_TRACE(::testing::Message() << text << ", window " << window);
      const auto spec = selection::MethodSpec::parse(text).resolved(trace.session().shape());
      const auto layout = selection::row_layout(spec, trace.session().shape());
      const auto on = [&](const char* device) {
        const auto selector = selection::make_selector(spec, trace.session().shape());
        const selection::Cell cell = trace_cells(trace.session(), spec, 2, device)->load(1, 2);
        selection::CellSelection chosen;
        const auto attended = [&] {
          return selection::attend_selected(spec, trace.session().info().model, cell, layout,
                                            chosen);
        };
        at::Tensor there;
        const auto work = device::count_device_work(device::open_device(device), [&] {
          chosen = selector->select_there(cell);
          there = attended();
        });
        EXPECT_EQ(work ? work->host_waits : 0, 0);
        EXPECT_EQ(chosen.pending.has_value(), !cell.q.is_cpu());
        selection::bring_rows(chosen);
        EXPECT_TRUE(at::allclose(there.cpu(), attended().cpu(), 1e-5, 1e-6));
        return selection::kept_positions(chosen);
      };
      const auto rows = on("cpu");
      EXPECT_EQ(on("sim"), rows);
      EXPECT_EQ(rows.front().size(), 8U);
    }
  }
}

// Rows of different lengths come at once.
TEST(AttendSelected, SharesOfTheMassAreWaitedForOnce) {
  const SmallTrace trace({.num_kv_heads = 4});
  const auto spec =
      selection::MethodSpec::parse("sample_attention:budget_tokens=20,mode=coverage,coverage=0.5")
          .resolved(trace.session().shape());
  const auto rows_on = [&](const char* device) {
    const auto selector = selection::make_selector(spec, trace.session().shape());
    const selection::Cell cell = trace_cells(trace.session(), spec, 2, device)->load(1, 2);
    selection::CellSelection chosen;
    const auto work = device::count_device_work(device::open_device(device),
                                                [&] { chosen = selector->select(cell); });
    EXPECT_EQ(work ? work->host_waits : 1, 1);
    return selection::kept_positions(chosen);
  };
  EXPECT_EQ(rows_on("sim"), rows_on("cpu"));
}

TEST(MeasureLatency, SaysWhereTheMethodItselfIsDense) {
  const SmallTrace trace;
  EXPECT_EQ(measure(trace, "dense", 2).dense_reason, trace::DenseReason::MethodRule);
  EXPECT_EQ(measure(trace, "quoka:budget_tokens=64", 2).dense_reason,
            trace::DenseReason::FitsBudget);
  EXPECT_EQ(measure(trace, "quoka:budget_tokens=8", 0).dense_reason, trace::DenseReason::EmptyPast);
}

TEST(MeasureLatency, SaysWhatItWasNotComparedWith) {
  EXPECT_TRUE(measure(SmallTrace(), "quoka:budget_tokens=8", 2).dense_left_out.empty());
  const LatencyReport report = measure(SmallTrace({.softcap = 2}), "quoka:budget_tokens=8", 2);
  EXPECT_EQ(report.dense_variant, "kvloupe");
  std::vector<std::string> forms;
  for (const DenseLeftOut& one : report.dense_left_out) forms.push_back(one.form);
  EXPECT_EQ(forms, (std::vector<std::string>{"sdpa gqa", "sdpa expanded", "sdpa folded"}));
}

TEST(MeasureLatency, WhatIsSimulatedHasNoSpeed) {
  LatencyReport report;
  report.total = {.median_ms = 1, .samples = 3};
  report.dense = {.median_ms = 2, .samples = 3};
  EXPECT_DOUBLE_EQ(report.speedup().value(), 2);
  report.executed = false;
  EXPECT_FALSE(report.speedup());
}

TEST(MeasureLatency, LanesAndChannelsAreExecuted) {
  const SmallTrace trace;
  for (const char* spec :
       {"aqua:basis=self", "static_slicing:basis=self", "aqua_h2o:basis=self",
        "aqua_memory:basis=self", "sparq:budget_tokens=8", "loki:budget_tokens=8,basis=self"}) {
    const LatencyReport report = measure(trace, spec, 2);
    EXPECT_TRUE(report.executed) << spec;
    EXPECT_EQ(report.speedup().has_value(), report.total.samples > 0) << spec;
  }
}

// On a GPU no kernel leaves out the lanes that one query of many does not use.
TEST(MeasureLatency, WhatEachDeviceExecutes) {
  using device::DeviceKind;
  const SmallTrace trace;
  const auto executed = [&](const char* text, DeviceKind kind) {
    return is_executed(selection::MethodSpec::parse(text).resolved(trace.session().shape()), kind);
  };
  for (const char* text : {"quoka:budget_tokens=8", "static_slicing", "loki:budget_tokens=8"}) {
    EXPECT_TRUE(executed(text, DeviceKind::Cpu)) << text;
    EXPECT_TRUE(executed(text, DeviceKind::Cuda)) << text;
    EXPECT_FALSE(executed(text, DeviceKind::Sim)) << text;
  }
  for (const char* text : {"aqua", "aqua_h2o", "aqua_memory"}) {
    EXPECT_TRUE(executed(text, DeviceKind::Cpu)) << text;
    EXPECT_FALSE(executed(text, DeviceKind::Cuda)) << text;
  }
}

// Copies of the past are at hand before a round; the chunk's own keys are copied in each of them, and
// what is attended to is the same in every round.
TEST(MethodRun, RoundsOfLaneMethodsAreAlike) {
  const SmallTrace trace;
  for (const char* text : {"aqua:basis=self", "static_slicing:basis=self", "aqua_h2o:basis=self"}) {
    const auto spec = selection::MethodSpec::parse(text);
    const auto cells = trace_cells(trace.session(), spec, 2);
    MethodRun run(trace.session(), spec, *cells, 1, {});
    std::vector<std::int64_t> products;
    for (int round = 0; round < 3; ++round) {
      run.prepare({});
      const WorkCount work;
      run.select();
      run.gather();
      run.attend();
      products.push_back(work.key_products());
    }
    EXPECT_GT(products[0], 0) << text;
    EXPECT_EQ(products, std::vector<std::int64_t>(3, products[0])) << text;
  }
}

// Of what was kept, a query multiplies keys and values once: counted by hand for 8 of 32 past keys.
TEST(MeasureLatency, TheFloorIsThatOfTheKeysKept) {
  const SmallTrace trace;
  const auto spec = selection::MethodSpec::parse("sliding_window:budget_tokens=8");
  const auto cells = trace_cells(trace.session(), spec, 2);
  MethodRun run(trace.session(), spec, *cells, 1, {});
  run.prepare({});
  run.select();
  const auto& model = trace.session().info().model;
  const double pairs = 16 * 8 + 16 * 17 / 2.0;
  const Work work = run.attention_work();
  EXPECT_DOUBLE_EQ(work.flops, 4.0 * model.head_dim * model.num_q_heads * pairs);
  EXPECT_DOUBLE_EQ(work.bytes, 4.0 * model.head_dim *
                                   (2 * 16 * model.num_q_heads + 2 * 24 * model.num_kv_heads));
}

TEST(MeasureLatency, TheOwnPastIsCutOrRepeatedBackwards) {
  const SmallTrace trace;
  const auto spec = selection::MethodSpec::parse("quoka:budget_tokens=8");
  const selection::Cell own = trace_cells(trace.session(), spec, 2)->load(1, 2);
  for (const std::int64_t past : {5, 32, 100}) {
    const auto cells = lengthened_cells(trace.session(), spec, 2, past);
    const selection::Cell cell = cells->load(1, cells->chunk());
    ASSERT_EQ(cell.past_len, past);
    ASSERT_EQ(cell.k.size(1), past + 16);
    EXPECT_TRUE(at::equal(cell.q, own.q));
    for (std::int64_t back = 1; back <= past; ++back) {
      const std::int64_t from = 31 - (back - 1) % 32;
      EXPECT_TRUE(at::equal(cell.k.select(1, past - back), own.k.select(1, from))) << back;
      EXPECT_TRUE(at::equal(cell.v.select(1, past - back), own.v.select(1, from))) << back;
    }
    EXPECT_TRUE(at::equal(cell.k.narrow(1, past, 16), own.k.narrow(1, 32, 16)));
    // The chunks before it make up the past, without a gap.
    std::int64_t end = 0;
    for (int c = 0; c < cells->chunk(); ++c) {
      const selection::Cell earlier = cells->load(1, c);
      EXPECT_EQ(earlier.past_len, end);
      end = earlier.kv_len();
      EXPECT_EQ(earlier.q.size(1), earlier.chunk_len);
      EXPECT_EQ(earlier.k.size(1), end);
    }
    EXPECT_EQ(end, past);
  }
  EXPECT_THROW(lengthened_cells(trace.session(), spec, 0, 100), Error);
  EXPECT_THROW(lengthened_cells(trace.session(), spec, 7, 100), Error);
}

TEST(MeasureLatency, WholePagesAreReadWhereTheyLie) {
  const SmallTrace trace;
  EXPECT_EQ(measure(trace, "quest:budget_tokens=8,page_size=4,skip_layers=0", 2).reads,
            KvReads::Tables);
  // Dense by the method's rule: nothing is selected.
  EXPECT_EQ(measure(trace, "quest:budget_tokens=8,page_size=4,skip_layers=2", 2).reads,
            KvReads::Copies);
}

TEST(MeasureLatency, NativeMasksAreReadByThemselves) {
  const SmallTrace trace;
  const LatencyReport report =
      measure(trace, "flash_prefill:block_size=4,alpha=0.9,lowering=native", 2);
  EXPECT_EQ(report.reads, KvReads::Masks);
  EXPECT_TRUE(report.executed);
  EXPECT_TRUE(report.speedup());
  EXPECT_STREQ(gather_name(report.reads), "block masks");
  EXPECT_EQ(measure(trace, "flash_prefill:lowering=union,block_size=4,alpha=0.9", 2).reads,
            KvReads::Tables);
}

// Bytes and products of the masks alone: pairs by counting, keys that any head of the group reads.
TEST(MethodRun, CountsTheWorkOfNativeMasks) {
  const SmallTrace trace;
  const auto spec = selection::MethodSpec::parse(
      "flash_prefill:block_size=4,alpha=0.97,sink_blocks=0,window_blocks=1,lowering=native");
  const auto cells = trace_cells(trace.session(), spec, 2);
  MethodRun run(trace.session(), spec, *cells, 1, {});
  run.prepare({});
  run.select();
  const trace::BlockMasks& masks = run.selected().blocks.value();
  double pairs = 0, keys = 0;
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    std::set<int> read;
    for (int head = 2 * kv_head; head < 2 * kv_head + 2; ++head)
      for (int query = 32; query < 48; ++query)
        for (int key = 0; key <= query; ++key) {
          if (key >= 32) read.insert(key);
          if (masks.kept[masks.index(head, query / 4 - 8, key / 4)] == 0) continue;
          ++pairs;
          read.insert(key);
        }
    keys += static_cast<double>(read.size());
  }
  const Work work = run.attention_work();
  EXPECT_NEAR(work.flops, 4 * 8 * pairs, 1e-6);
  EXPECT_NEAR(work.bytes, 4.0 * 8 * 2 * (keys + 16 * 4), 1e-6);  // K and V, queries and outputs
  EXPECT_LT(pairs, 4 * (16 * 32 + 16 * 17 / 2));
}

TEST(MeasureLatency, EveryMethodAndKindOfCell) {
  const SmallTrace trace({.num_layers = 6, .decoded = 1, .probe_len = 3});
  const replay::MethodList list = replay::parse_methods("all:budget_tokens=8,basis=self");
  EXPECT_EQ(list.methods.size() + list.unavailable.size(), selection::catalogue().size());
  std::vector<selection::MethodSpec> specs = list.required_specs();
  for (const char* more :
       {"streaming_llm:budget_tokens=8,positions=reassigned", "snapkv:budget_tokens=8,state=select",
        "oracle:budget_tokens=8,budget_scope=all",
        "xattention:block_size=8,stride=4,tau=0.5,lowering=native"})
    specs.push_back(selection::MethodSpec::parse(more));
  for (const selection::MethodSpec& spec : specs)
    for (const int chunk : {0, 3, 4})
      EXPECT_TRUE(
          measure_latency(trace.session(), spec, 4, chunk, {.repetitions = 1, .warm_up = 1}, {}, {})
              .finished)
          << spec.id();
  for (const selection::MethodSpec& spec : specs)
    EXPECT_EQ(measure_latency(trace.session(), spec, 4, 3,
                              {.repetitions = 1, .warm_up = 1, .past_len = 75}, {}, {})
                  .past_len,
              75)
        << spec.id();
  EXPECT_THROW(measure(trace, "dense", 5), Error);
}

TEST(MeasureLatency, RefusesWhatTheTraceCannotServe) {
  const SmallTrace trace({.num_layers = 6, .layers = {0, 1, 4}});
  for (const char* spec : {"infinipot:budget_tokens=8", "aqua",
                           "tidal_decode:budget_tokens=8,first_layer=2,correction_layer=3"})
    EXPECT_THROW(
        measure_latency(trace.session(), selection::MethodSpec::parse(spec), 4, 2, {}, {}, {}),
        Error)
        << spec;
}

}  // namespace
}  // namespace kvloupe::measure
