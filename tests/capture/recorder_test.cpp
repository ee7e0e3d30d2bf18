// Captures of a tiny random model, read back: stored values against plain loops, recorded sets
// against a replay by fresh selectors.
#include "capture/run/capture.h"
#include "core/base/error.h"
#include "core/selection/selector.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/method_specs.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;

// One cell of a trace as capture shows it to selectors.
selection::Cell stored_cell(const trace::TraceReader& reader, const StoredLayer& stored, int layer,
                            int chunk_idx, const std::vector<float>& novelty) {
  const trace::TraceInfo& info = reader.info();
  const trace::ChunkInfo& chunk = info.chunks[static_cast<std::size_t>(chunk_idx)];
  selection::Cell cell;
  cell.layer = layer;
  cell.chunk = chunk_idx;
  cell.past_len = chunk.begin;
  cell.chunk_len = chunk.length;
  cell.phase = chunk.phase;
  cell.ends_prefill =
      chunk.phase == trace::Phase::Prefill &&
      (chunk_idx + 1 == static_cast<int>(info.chunks.size()) ||
       info.chunks[static_cast<std::size_t>(chunk_idx) + 1].phase == trace::Phase::Decode);
  cell.softmax = info.model.softmax_scale;
  cell.q = stored.q.slice(1, chunk.begin, chunk.end()).contiguous();
  cell.k = stored.k.slice(1, 0, chunk.end());
  cell.v = stored.v.slice(1, 0, chunk.end());
  if (const auto probe = reader.read_probe(layer, chunk_idx)) {
    cell.probe_q =
        at::tensor(*probe).reshape({info.model.num_q_heads, info.probe_len, info.model.head_dim});
    cell.novelty = at::tensor(novelty).slice(0, 0, chunk.end());
  }
  return cell;
}

// What a trace should hold of one layer, gathered cell by cell.
struct FreshLayer {
  std::vector<int> flags;
  std::vector<std::vector<std::int32_t>> positions, forced;
  std::vector<std::vector<std::uint16_t>> evict_chunk;  // by row
  std::vector<std::int32_t> lane_counts;
  // By chunk, [H, Q_b, N_b] and the number of key blocks N_b; empty where the cell is dense.
  std::vector<std::pair<std::vector<std::uint8_t>, std::int64_t>> masks;

  void add(const selection::CellSelection& selection,
           const std::vector<std::vector<std::int32_t>>& evicted, int chunk, std::size_t tokens) {
    masks.emplace_back();
    if (selection.blocks) {
      masks.back() = {selection.blocks->kept, selection.blocks->grid.num_key_blocks()};
    }
    const bool lanes_alone = !selection.lane_counts.empty() && evicted.empty();
    const int flag = selection.dense_fallback() ? 1 : selection.dense_reason || lanes_alone ? 2 : 0;
    for (const trace::SelectedRow& row : selection.rows) {
      flags.push_back(flag);
      positions.push_back(flag ? std::vector<std::int32_t>{} : row.positions);
      forced.push_back(flag ? std::vector<std::int32_t>{} : row.forced);
    }
    evict_chunk.resize(evicted.size(), std::vector<std::uint16_t>(tokens, trace::kAlive));
    for (std::size_t row = 0; row < evicted.size(); ++row) {
      for (const std::int32_t position : evicted[row]) {
        evict_chunk[row][static_cast<std::size_t>(position)] = static_cast<std::uint16_t>(chunk);
      }
    }
    lane_counts.insert(lane_counts.end(), selection.lane_counts.begin(),
                       selection.lane_counts.end());
  }
};

// Native masks, one bit a block, rows of whole bytes; dense chunks keep all blocks that they see.
void expect_masks(const trace::RunLayer& recorded, const FreshLayer& fresh,
                  const trace::TraceInfo& info) {
  if (recorded.block_size == 0) return;
  std::size_t byte = 0;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    const int size = recorded.block_size, first = info.chunks[c].begin / size;
    const int blocks = (info.chunks[c].end() + size - 1) / size;
    const int rows = info.model.num_q_heads * (blocks - first);
    const auto& [mask, num_blocks] = fresh.masks[c];
    for (int row = 0; row < rows; ++row, byte += static_cast<std::size_t>((blocks + 7) / 8)) {
      for (int j = 0; j < blocks; ++j) {
        const int bit =
            recorded.block_mask.at(byte + static_cast<std::size_t>(j / 8)) >> (j % 8) & 1;
        const int own = first + row % (blocks - first);
        const int expected =
            mask.empty() ? j <= own : mask.at(static_cast<std::size_t>(row * num_blocks + j));
        ASSERT_EQ(bit, expected) << "chunk " << c << ", row " << row << ", block " << j;
      }
    }
  }
  EXPECT_EQ(byte, recorded.block_mask.size());
}

void expect_layer(const trace::RunLayer& recorded, const FreshLayer& fresh) {
  EXPECT_EQ(std::vector<int>(recorded.flags.begin(), recorded.flags.end()), fresh.flags);
  ASSERT_EQ(recorded.offsets.size(), fresh.positions.size() + 1);
  for (std::size_t cell = 0; cell < fresh.positions.size(); ++cell) {
    EXPECT_EQ(std::vector<std::int32_t>(recorded.positions.begin() + recorded.offsets[cell],
                                        recorded.positions.begin() + recorded.offsets[cell + 1]),
              fresh.positions[cell])
        << "cell " << cell;
  }
  std::vector<std::uint16_t> flat;
  for (const auto& row : fresh.evict_chunk) flat.insert(flat.end(), row.begin(), row.end());
  EXPECT_EQ(recorded.evict_chunk, flat);
  ASSERT_EQ(recorded.forced_offsets.size(), fresh.forced.size() + 1);
  for (std::size_t cell = 0; cell < fresh.forced.size(); ++cell) {
    std::vector<std::int32_t> forced;
    for (auto i = recorded.forced_offsets[cell]; i < recorded.forced_offsets[cell + 1]; i += 2)
      for (auto at = recorded.forced_bounds[static_cast<std::size_t>(i)];
           at < recorded.forced_bounds[static_cast<std::size_t>(i) + 1]; ++at)
        forced.push_back(recorded.positions[static_cast<std::size_t>(recorded.offsets[cell] + at)]);
    EXPECT_EQ(forced, fresh.forced[cell]) << "cell " << cell;
  }
  EXPECT_EQ(recorded.lane_counts, fresh.lane_counts);
}

// What a fresh selector makes of the stored values must be what the run holds, bit for bit.
void expect_replay_equals_run(const trace::TraceReader& reader, int run) {
  const trace::TraceInfo& info = reader.info();
  const trace::RunInfo& run_info = info.runs[static_cast<std::size_t>(run)];
  SCOPED_TRACE(run_info.method);
  const MethodSpec spec = MethodSpec::parse(run_info.method);
  EXPECT_EQ(spec.canonical(), run_info.method);
  const selection::BasisPtr basis =
      spec.traits().basis ? selection::load_basis(spec, info.model) : nullptr;
  const auto selector = selection::make_selector(spec, selection::shape_of(info.model), basis);
  const std::vector<float> novelty = reader.read<float>(trace::Field::Nll);
  std::vector<StoredLayer> stored;
  for (const int layer : info.layers) stored.push_back(read_layer(reader, layer));
  std::vector<FreshLayer> fresh(stored.size());
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const selection::Cell cell =
          stored_cell(reader, stored[i], info.layers[i], static_cast<int>(c), novelty);
      const selection::CellSelection selection = selector->select(cell);
      fresh[i].add(selection, selector->evict(cell), static_cast<int>(c),
                   static_cast<std::size_t>(info.num_tokens));
    }
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "layer " << info.layers[i]);
    expect_layer(reader.read_run_layer(run, info.layers[i]), fresh[i]);
    expect_masks(reader.read_run_layer(run, info.layers[i]), fresh[i], info);
    EXPECT_EQ(run_info.block_size > 0, run_info.granularity == trace::Granularity::Block);
    const bool evicts = run_info.state_action == trace::StateAction::Eviction;
    EXPECT_EQ(evicts, !fresh[i].evict_chunk.empty());
    if (evicts) {
      EXPECT_THAT(reader.read_run_layer(run, info.layers[i]).evict_chunk,
                  Contains(testing::Lt(trace::kAlive)));
    }
  }
}

class Recording : public testing::TestWithParam<trace::DType> {};

TEST_P(Recording, ReplayOfStoredValuesGivesTheRecordedSets) {
  CaptureOptions options = tiny_options("open.h5");
  options.dtype = GetParam();
  for (const std::string& spec : all_method_specs()) {
    options.methods.push_back(MethodSpec::parse(spec));
  }
  // The last query blocks of the prompt are dense: the method must know where the prompt ends.
  options.methods.push_back(
      MethodSpec::parse("flash_prefill:lowering=union,block_size=16,alpha=0.5,sink_blocks=0,window_"
                        "blocks=1,last_full_blocks=1"));
  options.methods.push_back(MethodSpec::parse(
      "compact_attention:block_size=16,alpha=0.5,sink_blocks=0,window_blocks=1,subgroup_size=1"));
  options.methods.push_back(MethodSpec::parse(
      "flash_prefill:block_size=16,alpha=0.9,window_blocks=0,last_full_blocks=1,lowering=native"));
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
  std::vector<std::string> specs = all_method_specs(24);
  specs.emplace_back("flash_prefill:block_size=16,alpha=0.9,sink_blocks=0,lowering=native");
  for (const std::string& spec : specs) {
    CaptureOptions options = tiny_options("closed.h5");
    options.dtype = GetParam();
    options.closed_loop = MethodSpec::parse(spec);
    options.methods = {MethodSpec::parse("oracle:budget_tokens=24")};
    capture_tiny(options);
    EXPECT_EQ(trace::validate_trace("closed.h5"), std::vector<std::string>{}) << spec;
    const trace::TraceReader reader("closed.h5");
    EXPECT_EQ(reader.info().mode, trace::LoopMode::ClosedLoop);
    ASSERT_EQ(reader.info().runs.size(), 2u);
    EXPECT_EQ(reader.info().runs[0].mode, trace::LoopMode::ClosedLoop);
    EXPECT_EQ(reader.info().runs[1].mode, trace::LoopMode::OpenLoop);
    const auto layout =
        selection::row_layout(*options.closed_loop, selection::shape_of(reader.info().model));
    EXPECT_EQ(reader.info().runs[0].q_heads_per_row, layout.q_heads_per_row);
    EXPECT_EQ(reader.info().runs[1].q_heads_per_row, 3);
    expect_replay_equals_run(reader, 0);
    expect_replay_equals_run(reader, 1);
  }
}

// The layers whose sets are reused are selected in, though they are not recorded.
TEST_P(Recording, ReusedSetsOfLayersThatAreNotRecorded) {
  CaptureOptions options = tiny_options("all.h5");
  options.dtype = GetParam();
  for (const char* id : {"tidal_decode", "less_is_more"}) {
    options.methods.push_back(
        MethodSpec::parse(std::string(id) + ":budget_tokens=24,first_layer=0,correction_layer=1"));
  }
  capture_all_and_one_layer(options);
  const trace::TraceReader all("all.h5"), one("one.h5");
  for (const int run : {0, 1}) {
    const trace::RunLayer recorded = one.read_run_layer(run, 2);
    EXPECT_FALSE(recorded.positions.empty());
    EXPECT_EQ(recorded.positions, all.read_run_layer(run, 2).positions);
    EXPECT_EQ(recorded.flags, all.read_run_layer(run, 2).flags);
  }
}

TEST_P(Recording, RunsSayWhatTheirBasisIs) {
  CaptureOptions options = tiny_options("based.h5");
  options.dtype = GetParam();
  const std::string spec = "loki:budget_tokens=24,basis=" + tiny_basis(trace::BasisKind::Loki);
  options.methods = {MethodSpec::parse(spec), MethodSpec::parse("oracle:budget_tokens=24")};
  capture_tiny(options);
  const trace::TraceReader strange("based.h5");
  EXPECT_EQ(strange.info().runs[0].basis_source, "another text");
  EXPECT_EQ(strange.info().runs[0].basis_hash, std::string(64, 'c'));
  EXPECT_FALSE(strange.info().runs[0].basis_leakage);
  EXPECT_TRUE(strange.info().runs[1].basis_source.empty());
  // The prompt holds what the basis was fitted on.
  options.prompt_text =
      "Here: Another text, of which no piece is in the prompts that are captured.";
  capture_tiny(options);
  EXPECT_TRUE(trace::TraceReader("based.h5").info().runs[0].basis_leakage);
  options.methods = {MethodSpec::parse("loki:budget_tokens=24,basis=self")};
  EXPECT_THROW(capture_tiny(options), Error);
  options.methods = {MethodSpec::parse("aqua:basis=" + tiny_basis(trace::BasisKind::Loki))};
  EXPECT_THROW(capture_tiny(options), Error);
}

// exp-sum in double over the causal set, from the stored values.
TEST_P(Recording, LogSumExpAndMassAreThoseOfTheStoredValues) {
  for (const bool closed : {false, true}) {
    CaptureOptions options = tiny_options("lse.h5");
    options.dtype = GetParam();
    options.store.set(trace::Part::Mass);
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
