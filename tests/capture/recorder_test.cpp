// Captures of a tiny random model, read back: stored values against plain loops, recorded sets
// against a replay by fresh selectors.
#include "capture/capture.h"
#include "core/selection/selector.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;

// What a fresh selector makes of the stored values must be what the run holds, bit for bit.
void expect_replay_equals_run(const trace::TraceReader& reader, int run) {
  const trace::TraceInfo& info = reader.info();
  const trace::RunInfo& run_info = info.runs[static_cast<std::size_t>(run)];
  SCOPED_TRACE(run_info.method);
  const MethodSpec spec = MethodSpec::parse(run_info.method);
  EXPECT_EQ(spec.canonical(), run_info.method);
  const auto selector = selection::make_selector(spec, selection::shape_of(info.model));
  for (const int layer : info.layers) {
    const StoredLayer stored = read_layer(reader, layer);
    const trace::RunLayer recorded = reader.read_run(run, layer);
    const std::size_t rows = static_cast<std::size_t>(recorded.num_rows);
    std::vector<std::vector<std::uint16_t>> evict_chunk(
        rows, std::vector<std::uint16_t>(static_cast<std::size_t>(info.num_tokens), trace::kAlive));
    for (std::size_t c = 0; c < info.chunks.size(); ++c) {
      const trace::ChunkInfo& chunk = info.chunks[c];
      selection::Cell cell;
      cell.layer = layer;
      cell.chunk = static_cast<int>(c);
      cell.past_len = chunk.begin;
      cell.chunk_len = chunk.length;
      cell.phase = chunk.phase;
      cell.softmax_scale = info.model.softmax_scale;
      cell.q = stored.q.slice(1, chunk.begin, chunk.end()).contiguous();
      cell.k = stored.k.slice(1, 0, chunk.end());
      cell.v = stored.v.slice(1, 0, chunk.end());
      const selection::CellSelection fresh = selector->select(cell);
      const auto evicted = selector->evict(cell);
      ASSERT_EQ(fresh.rows.size(), rows);
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t at = c * rows + row;
        const std::vector<std::int32_t> positions(
            recorded.positions.begin() + recorded.offsets[at],
            recorded.positions.begin() + recorded.offsets[at + 1]);
        const int flag = fresh.dense_fallback ? 1 : fresh.dense_reason ? 2 : 0;
        EXPECT_EQ(int(recorded.flags[at]), flag) << "layer " << layer << " chunk " << c;
        EXPECT_EQ(positions, flag ? std::vector<std::int32_t>{} : fresh.rows[row].positions)
            << "layer " << layer << " chunk " << c << " row " << row;
        if (!evicted.empty()) {
          for (const std::int32_t position : evicted[row]) {
            evict_chunk[row][static_cast<std::size_t>(position)] = static_cast<std::uint16_t>(c);
          }
        }
      }
    }
    if (run_info.state_action == trace::StateAction::Eviction) {
      std::vector<std::uint16_t> flat;
      for (const auto& row : evict_chunk) flat.insert(flat.end(), row.begin(), row.end());
      EXPECT_EQ(recorded.evict_chunk, flat);
      EXPECT_THAT(flat, testing::Contains(testing::Lt(trace::kAlive)));
    } else {
      EXPECT_TRUE(recorded.evict_chunk.empty());
    }
  }
}

std::vector<std::string> all_method_specs() {
  std::vector<std::string> specs;
  for (const selection::MethodInfo& method : selection::catalogue()) {
    specs.push_back(method.budget == selection::BudgetUse::None ? method.id
                                                                : method.id + ":budget_tokens=40");
    if (method.accepts_scope_all) {
      specs.push_back(method.id + ":budget_tokens=40,budget_scope=all");
    }
    for (const selection::ParamInfo& param : method.params) {
      if (param.name == "state") specs.push_back(method.id + ":budget_tokens=40,state=select");
    }
  }
  specs.push_back("snapkv:budget_ratio=0.3");
  return specs;
}

class Recording : public testing::TestWithParam<trace::DType> {};

TEST_P(Recording, ReplayOfStoredValuesGivesTheRecordedSets) {
  CaptureOptions options = tiny_options("open.h5");
  options.dtype = GetParam();
  for (const std::string& spec : all_method_specs()) {
    options.methods.push_back(MethodSpec::parse(spec));
  }
  const CaptureReport report = capture_tiny(options);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(trace::validate_trace("open.h5"), std::vector<std::string>{});
  const trace::TraceReader reader("open.h5");
  EXPECT_EQ(reader.info().mode, trace::LoopMode::OpenLoop);
  ASSERT_EQ(reader.info().runs.size(), options.methods.size());
  for (std::size_t run = 0; run < options.methods.size(); ++run) {
    expect_replay_equals_run(reader, static_cast<int>(run));
  }
}

TEST_P(Recording, ClosedLoopIsRunZeroAndReplaysToo) {
  for (const char* spec : {"quoka:budget_tokens=24", "snapkv:budget_tokens=40",
                           "keydiff:budget_tokens=24", "oracle:budget_tokens=24,budget_scope=all",
                           "streaming_llm:budget_tokens=24", "random:budget_tokens=24"}) {
    CaptureOptions options = tiny_options("closed.h5");
    options.dtype = GetParam();
    options.closed_loop = MethodSpec::parse(spec);
    options.methods = {MethodSpec::parse("oracle:budget_tokens=24")};
    capture_tiny(options);
    const trace::TraceReader reader("closed.h5");
    EXPECT_EQ(reader.info().mode, trace::LoopMode::ClosedLoop);
    ASSERT_EQ(reader.info().runs.size(), 2u);
    EXPECT_EQ(reader.info().runs[0].mode, trace::LoopMode::ClosedLoop);
    EXPECT_EQ(reader.info().runs[1].mode, trace::LoopMode::OpenLoop);
    EXPECT_EQ(reader.info().runs[0].q_heads_per_row, 3);
    expect_replay_equals_run(reader, 0);
    expect_replay_equals_run(reader, 1);
  }
}

// exp-sum in double over the causal set, from the stored values.
TEST_P(Recording, LogSumExpAndMassAreThoseOfTheStoredValues) {
  for (const bool closed : {false, true}) {
    CaptureOptions options = tiny_options("lse.h5");
    options.dtype = GetParam();
    options.store_mass = true;
    if (closed) options.closed_loop = MethodSpec::parse("random:budget_tokens=16");
    capture_tiny(options);
    const trace::TraceReader reader("lse.h5");
    const trace::TraceInfo& info = reader.info();
    const int group = info.model.gqa_group_size();
    for (const int layer : info.layers) {
      const StoredLayer stored = read_layer(reader, layer);
      const auto q = stored.q.accessor<float, 3>();
      const auto k = stored.k.accessor<float, 3>();
      for (std::size_t c = 0; c < info.chunks.size(); ++c) {
        const trace::ChunkInfo& chunk = info.chunks[c];
        const std::size_t end = static_cast<std::size_t>(chunk.end());
        std::vector<double> mass(end * static_cast<std::size_t>(info.model.num_kv_heads));
        for (int head = 0; head < info.model.num_q_heads; ++head) {
          std::vector<float> lse(static_cast<std::size_t>(chunk.length));
          reader.read_lse(layer, head, chunk.begin, chunk.end(), lse.data());
          for (std::int32_t t = chunk.begin; t < chunk.end(); ++t) {
            std::vector<double> weight(static_cast<std::size_t>(t) + 1);
            double sum = 0;
            for (std::int32_t j = 0; j <= t; ++j) {
              double dot = 0;
              for (int d = 0; d < info.model.head_dim; ++d) {
                dot += double(q[head][t][d]) * double(k[head / group][j][d]);
              }
              sum += weight[static_cast<std::size_t>(j)] = std::exp(dot * info.model.softmax_scale);
            }
            ASSERT_NEAR(lse[static_cast<std::size_t>(t - chunk.begin)], std::log(sum), 1e-4);
            for (std::size_t j = 0; j < weight.size(); ++j) {
              mass[static_cast<std::size_t>(head / group) * end + j] += weight[j] / sum;
            }
          }
        }
        const auto stored_mass = reader.read_key_mass(layer, static_cast<int>(c));
        ASSERT_EQ(stored_mass.has_value(), chunk.phase == trace::Phase::Prefill);
        if (!stored_mass) continue;
        ASSERT_EQ(stored_mass->size(), mass.size());
        for (std::size_t i = 0; i < mass.size(); ++i) ASSERT_NEAR((*stored_mass)[i], mass[i], 1e-3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Recording, testing::Values(trace::DType::F16, trace::DType::F32),
                         [](const auto& param) {
                           return param.param == trace::DType::F16 ? "f16" : "f32";
                         });

}  // namespace
}  // namespace kvloupe::capture
