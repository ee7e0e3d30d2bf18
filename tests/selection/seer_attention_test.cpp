// SeerAttention's gate against slow fp64 loops written from microsoft/SeerAttention
// (prefill_sparse/attn_gate.py), on gates with other weights in every head.
#include "core/base/error.h"
#include "core/base/safetensors.h"
#include "core/selection/blocks/gate.h"
#include "tests/base/temporary_folder.h"
#include "tests/selection/method_files.h"
#include "tests/selection/sequences.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <map>
#include <random>
#include <set>

namespace kvloupe::selection::testing {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<double>;

struct TestGate {
  int hidden = 0, k_heads = 0;
  NamedTensor q, k;
};

// A row times the weights of one head.
Row times(const Row& row, const NamedTensor& weight, int head) {
  const auto columns = static_cast<std::size_t>(weight.shape[2]);
  Row result(columns, 0.0);
  for (std::size_t i = 0; i < row.size(); ++i)
    for (std::size_t o = 0; o < columns; ++o)
      result[o] +=
          row[i] * static_cast<double>(weight.values[(head * row.size() + i) * columns + o]);
  return result;
}

// Half-split pairs turned on by `position`.
Row embedded(Row row, double position, double theta) {
  const std::size_t half = row.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(row.size());
    const auto pair = std::complex<double>(row[i], row[i + half]) *
                      std::polar(1.0, position * std::pow(theta, exponent));
    row[i] = pair.real();
    row[i + half] = pair.imag();
  }
  return row;
}

class SeerAttentionTest : public ::testing::Test {
 protected:
  static NamedTensor random_weights(int heads, int rows, int columns, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.4F);
    NamedTensor tensor{{heads, rows, columns}, {}};
    for (int i = 0; i < heads * rows * columns; ++i) tensor.values.push_back(normal(random));
    return tensor;
  }
  static TestGate random_gate(const SequenceShape& shape, int hidden) {
    return {hidden, shape.num_kv_heads,
            random_weights(shape.num_q_heads, shape.head_dim, hidden, 3),
            random_weights(shape.num_kv_heads, 3 * shape.head_dim, hidden, 4)};
  }
  static std::string weight_name(int layer, const char* which) {
    return fmt::format("model.layers.{}.self_attn.attn_gate.mask_linear_{}.weight", layer, which);
  }
  std::string write(const TestGate& gate, int layer,
                    std::map<std::string, std::string> metadata = {}) const {
    const fs::path path = folder_ / "gate.safetensors";
    std::map<std::string, NamedTensor> tensors = {{weight_name(layer, "k"), gate.k}};
    if (!gate.q.values.empty()) tensors[weight_name(layer, "q")] = gate.q;
    write_safetensors(path, tensors, metadata);
    return path.string();
  }

  const TemporaryFolder folder_;
};

// Before the embedding, of the stored row at `position`.
Row before(const Sequence& s, const float* stored, int position) {
  return embedded(Row(stored, stored + s.shape.head_dim), -position, s.model().rope_theta);
}

// The gate's scores of one head and query block of one chunk, over its causal blocks.
Row slow_scores(const Sequence& s, const TestGate& gate, int chunk, int head, int query_block,
                int block_size) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  const int dim = s.shape.head_dim;
  const double theta = s.model().rope_theta;
  Row query(static_cast<std::size_t>(dim), 0.0);
  int count = 0;
  for (int position = span.begin; position < span.end(); ++position) {
    if (position / block_size != query_block) continue;
    const Row row = before(s, s.query(head, position), position);
    for (int c = 0; c < dim; ++c) query[c] += row[c];
    ++count;
  }
  for (double& value : query) value /= count;
  const Row x = embedded(gate.q.values.empty() ? query : times(query, gate.q, head),
                         query_block * block_size, theta);
  const int kv_head = head / s.gqa_group_size();
  const int k_head = head / (s.shape.num_q_heads / gate.k_heads);
  Row logits;
  for (int block = 0; block <= query_block; ++block) {
    Row pooled(static_cast<std::size_t>(3 * dim), 0.0);
    const int begin = block * block_size;
    const int end = std::min(span.end(), begin + block_size);
    for (int c = 0; c < dim; ++c) {
      pooled[c] = -1e300;
      pooled[dim + c] = 1e300;
    }
    for (int position = begin; position < end; ++position) {
      const Row row = before(s, s.key(kv_head, position), position);
      for (int c = 0; c < dim; ++c) {
        pooled[c] = std::max(pooled[c], row[c]);
        pooled[dim + c] = std::min(pooled[dim + c], row[c]);
        pooled[2 * dim + c] += row[c] / (end - begin);
      }
    }
    const Row y = embedded(times(pooled, gate.k, k_head), begin, theta);
    double logit = 0;
    for (std::size_t i = 0; i < x.size(); ++i) logit += x[i] * y[i];
    logits.push_back(logit / std::sqrt(static_cast<double>(x.size())));
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (double& logit : logits) total += logit = std::exp(logit - largest);
  for (double& logit : logits) logit /= total;
  return logits;
}

void expect_slow_masks(const Sequence& sequence, const TestGate& gate, const std::string& spec,
                       int block_size, double threshold) {
  const MethodRun run = run_method(sequence, spec);
  int kept = 0, dropped = 0;
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk) {
    const CellSelection& cell = run.cells[chunk];
    if (cell.dense_reason) continue;
    const trace::BlockMasks& choice = cell.blocks.value();
    std::vector<std::set<std::int32_t>> unions(cell.rows.size());
    for (int head = 0; head < sequence.shape.num_q_heads; ++head)
      for (int i = 0; i < choice.grid.num_query_blocks(); ++i) {
        const int own = static_cast<int>(choice.grid.block_of_query_block(i));
        const Row expected =
            slow_scores(sequence, gate, static_cast<int>(chunk), head, own, block_size);
        for (int block = 0; block < choice.grid.num_key_blocks(); ++block) {
          const float score = cell.block_scores.row(head, i)[block];
          const int mask = choice.kept[choice.index(head, i, block)];
          if (block > own) {
            EXPECT_EQ(mask, 0);
            continue;
          }
          EXPECT_NEAR(score, expected[block], 2e-6);
          EXPECT_EQ(mask, score > static_cast<float>(threshold) ? 1 : 0);
          ++(mask != 0 ? kept : dropped);
          for (int key = block * block_size; mask != 0 && key < (block + 1) * block_size; ++key)
            if (key < sequence.chunks[chunk].begin)
              unions[head / sequence.gqa_group_size()].insert(key);
        }
      }
    for (std::size_t row = 0; row < unions.size(); ++row) {
      for (int key = sequence.chunks[chunk].begin / block_size * block_size;
           key < sequence.chunks[chunk].begin; ++key)
        unions[row].insert(key);
      EXPECT_EQ(cell.rows[row].positions,
                std::vector<std::int32_t>(unions[row].begin(), unions[row].end()));
    }
  }
  EXPECT_GT(dropped, 20);
  // A lone block has the score 1, which is not above the threshold 1.
  EXPECT_EQ(kept > 20, threshold < 1);
}

SequenceShape ragged_shape() {
  return {.num_q_heads = 6, .head_dim = 8, .chunk_lengths = {9, 16, 1, 21, 3}, .layer = 2};
}

TEST_F(SeerAttentionTest, MatchesTheSlowGate) {
  const Sequence sequence = random_sequence(ragged_shape(), 21);
  const TestGate gate = random_gate(sequence.shape, 10);
  const std::string path = write(gate, 2);
  for (const int block_size : {4, 8, 64})
    expect_slow_masks(
        sequence, gate,
        fmt::format("seer_attention:lowering=union,block_size={},threshold={},gate={}", block_size,
                    block_size == 64 ? 1.0 : 0.1, path),
        block_size, block_size == 64 ? 1.0 : 0.1);
}

// A gate that tells nothing gives each of n blocks 1/n, which is not above itself.
TEST_F(SeerAttentionTest, TheThresholdItselfIsNotEnough) {
  SequenceShape shape = ragged_shape();
  shape.chunk_lengths = {36, 4};
  shape.decoded = 0;
  const Sequence sequence = random_sequence(shape, 24);
  TestGate gate = random_gate(sequence.shape, 10);
  std::fill(gate.q.values.begin(), gate.q.values.end(), 0.0F);
  const std::string own =
      "seer_attention:lowering=union,block_size=4,gate=" + write(gate, 2) + ",threshold=";
  EXPECT_EQ(run_method(sequence, own + "0.1").cells[1].rows[0].positions.size(), 0U);
  EXPECT_EQ(run_method(sequence, own + "0.0999").cells[1].rows[0].positions.size(), 36U);
}

// Published gates with as many channels as the heads: no weights for queries, keys by query head.
TEST_F(SeerAttentionTest, MatchesTheSlowGateWithOneLinearLayer) {
  const Sequence sequence = random_sequence(ragged_shape(), 22);
  const TestGate gate = {8, 6, {}, random_weights(6, 24, 8, 5)};
  expect_slow_masks(
      sequence, gate,
      "seer_attention:lowering=union,block_size=4,threshold=0.1,gate=" + write(gate, 2), 4, 0.1);
}

// The state kept between chunks changes nothing, nor do threads or where the keys lie.
TEST_F(SeerAttentionTest, OneCellAndAWholeReplayAreTheSame) {
  const Sequence sequence = random_sequence(ragged_shape(), 23);
  const std::string spec = "seer_attention:lowering=union,block_size=4,threshold=0.1,gate=" +
                           write(random_gate(sequence.shape, 16), 2);
  const MethodRun run = run_method(sequence, spec);
  const MethodRun roomy = run_method(sequence, spec, 5);
  at::set_num_threads(1);
  const MethodRun alone = run_method(sequence, spec);
  at::set_num_threads(2);
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk) {
    if (run.cells[chunk].dense_reason) continue;
    const CellSelection fresh =
        selector_for(sequence, spec)->select(cell_of(sequence, static_cast<int>(chunk)));
    const auto& expected = run.cells[chunk].block_scores.values();
    EXPECT_EQ(fresh.block_scores.values(), expected);
    EXPECT_EQ(roomy.cells[chunk].block_scores.values(), expected);
    EXPECT_EQ(alone.cells[chunk].block_scores.values(), expected);
  }
}

TEST_F(SeerAttentionTest, SaysWhyAGateDoesNotFit) {
  const Sequence sequence = random_sequence(ragged_shape(), 24);
  const auto why = [&](const std::string& spec) -> std::string {
    try {
      selector_for(sequence, spec)->select(cell_of(sequence, 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string own = "seer_attention:lowering=union,block_size=4,gate=";
  TestGate gate = random_gate(sequence.shape, 10);
  EXPECT_EQ(why(own + write(gate, 2)), "");
  EXPECT_TRUE(contains(why(own + "none"), "there is no such file"));
  EXPECT_TRUE(contains(why(own + write(gate, 3)), "no weights for it"));
  EXPECT_TRUE(contains(why(own + write(gate, 30)), "this model has 10 layers"));
  EXPECT_TRUE(contains(why(own + write(gate, 2, {{"block_size", "64"}})), "blocks of 64"));
  gate.q = {};
  EXPECT_TRUE(contains(why(own + write(gate, 2)), "lacks"));
  gate = random_gate(sequence.shape, 10);
  gate.k = random_weights(2, 23, 10, 1);
  EXPECT_TRUE(contains(why(own + write(gate, 2)), "has shape [2, 23, 10]"));
  gate = random_gate(sequence.shape, 9);
  EXPECT_TRUE(contains(why(own + write(gate, 2)), "even number"));
  gate = random_gate(sequence.shape, 10);
  gate.q.values[3] = NAN;
  EXPECT_TRUE(contains(why(own + write(gate, 2)), "NaN"));
  write_safetensors(folder_ / "other", {{"model.norm.weight", {{1}, {1.0F}}}}, {});
  EXPECT_TRUE(contains(why(own + (folder_ / "other").string()), "it holds no"));
}

TEST_F(SeerAttentionTest, AWrittenGateReadsBack) {
  const SequenceShape shape = ragged_shape();
  const ModelShape model = random_sequence(shape, 1).model();
  Gate gate;
  gate.hidden = 10;
  gate.metadata = {{"model_hash", "abc"}};
  gate.layers[2] = {random_weights(6, 8, 10, 1).values, random_weights(2, 24, 10, 2).values, 2};
  gate.layers[9] = {random_weights(6, 8, 10, 3).values, random_weights(6, 24, 10, 4).values, 6};
  const fs::path path = folder_ / "written";
  write_gate(path, gate, model);
  const Gate back = read_gate(path, model);
  EXPECT_EQ(back.hidden, 10);
  EXPECT_EQ(back.metadata, gate.metadata);
  ASSERT_EQ(back.layers.size(), 2U);
  for (const int layer : {2, 9}) {
    EXPECT_EQ(back.layers.at(layer).q_weight, gate.layers[layer].q_weight);
    EXPECT_EQ(back.layers.at(layer).k_weight, gate.layers[layer].k_weight);
    EXPECT_EQ(back.layers.at(layer).num_k_heads, gate.layers[layer].num_k_heads);
  }
}

}  // namespace
}  // namespace kvloupe::selection::testing
