// `calibrate seer` and `calibrate minference`: the gate's loss and training, what it is trained
// towards, and what comes of both on a small trace.
#include "core/base/error.h"
#include "core/base/safetensors.h"
#include "core/calibration/gate_learning.h"
#include "core/calibration/gate_training.h"
#include "core/calibration/pattern_search.h"
#include "core/selection/blocks/attention_patterns.h"
#include "core/session/session_tensors.h"
#include "tests/base/temporary_folder.h"
#include "tests/replay/small_trace.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

namespace kvloupe::calibration {
namespace {

namespace fs = std::filesystem;
using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

at::Tensor random_tensor(at::IntArrayRef shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  at::Tensor tensor = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.mutable_data_ptr<float>()[i] = normal(random);
  return tensor;
}

constexpr int kHeads = 4, kKvHeads = 2, kDim = 4, kHidden = 6, kBlocks = 5;

GateExample random_example(unsigned seed) {
  GateExample example;
  example.queries = random_tensor({kHeads, kBlocks, kDim}, seed);
  example.keys = random_tensor({kKvHeads, kBlocks, 3 * kDim}, seed + 1);
  const at::Tensor future = at::ones({kBlocks, kBlocks}, at::kBool).triu(1);
  example.target = random_tensor({kHeads, kBlocks, kBlocks}, seed + 2)
                       .masked_fill(future, -std::numeric_limits<float>::infinity())
                       .softmax(2);
  // A block that nothing looks at.
  example.target.select(2, 1).slice(1, 2).zero_();
  example.target.div_(example.target.sum({2}, true));
  example.first_row = 1;
  example.last_row = kBlocks;
  return example;
}

GateWeights random_weights(unsigned seed) {
  return {random_tensor({kHeads, kDim, kHidden}, seed) * 0.5,
          random_tensor({kKvHeads, 3 * kDim, kHidden}, seed + 1) * 0.5};
}

float at3(const at::Tensor& tensor, std::int64_t a, std::int64_t b, std::int64_t c) {
  return tensor
      .const_data_ptr<float>()[a * tensor.stride(0) + b * tensor.stride(1) + c * tensor.stride(2)];
}

// Mean KL(target || gate) in fp64, one product after the other.
double slow_loss(const GateWeights& weights, const GateExample& example, double theta,
                 int block_size) {
  const auto row = [&](const at::Tensor& input, const at::Tensor& weight, int head, int block) {
    std::vector<double> out(kHidden, 0.0);
    for (int i = 0; i < input.size(2); ++i)
      for (int o = 0; o < kHidden; ++o)
        out[o] += static_cast<double>(at3(input, head, block, i)) * at3(weight, head, i, o);
    for (int i = 0; i < kHidden / 2; ++i) {
      const double angle = block * block_size * std::pow(theta, -2.0 * i / kHidden);
      const double a = out[i], b = out[i + kHidden / 2];
      out[i] = a * std::cos(angle) - b * std::sin(angle);
      out[i + kHidden / 2] = a * std::sin(angle) + b * std::cos(angle);
    }
    return out;
  };
  double sum = 0;
  int rows = 0;
  for (int head = 0; head < kHeads; ++head)
    for (auto i = example.first_row; i < example.last_row; ++i, ++rows) {
      const auto x = row(example.queries, weights.q, head, static_cast<int>(i));
      std::vector<double> logits;
      double total = 0;
      for (int j = 0; j <= i; ++j) {
        const auto y = row(example.keys, weights.k, head / (kHeads / kKvHeads), j);
        double logit = 0;
        for (int c = 0; c < kHidden; ++c) logit += x[c] * y[c];
        logits.push_back(logit / std::sqrt(kHidden));
        total += std::exp(logits.back());
      }
      for (int j = 0; j <= i; ++j) {
        const double target = at3(example.target, head, i, j);
        if (target > 0) sum += target * (std::log(target) - logits[j] + std::log(total));
      }
    }
  return sum / rows;
}

TEST(GateLearning, LossMatchesSlowLoops) {
  const GateRotation rotation = gate_rotation(50, kHidden, 8, kBlocks);
  for (const unsigned seed : {1U, 4U}) {
    const GateExample example = random_example(seed);
    const GateWeights weights = random_weights(7 + seed);
    const auto loss = gate_loss(weights, rotation, example).item<double>();
    EXPECT_NEAR(loss, slow_loss(weights, example, 50, 8), 1e-5);
    EXPECT_GT(loss, 0.1);
  }
}

TEST(GateLearning, ALayerWithoutAnEmbeddingIsNotTurned) {
  const GateExample example = random_example(2);
  const GateWeights weights = random_weights(9);
  // Blocks of no size all stand at position 0, where nothing turns.
  EXPECT_NEAR(gate_loss(weights, {}, example).item<double>(), slow_loss(weights, example, 50, 0),
              1e-5);
}

TEST(GateLearning, TrainingLowersTheLossOfTheSlowLoops) {
  // Scores of the first row and of key blocks that no row looks at take part in nothing.
  const GateExample example = random_example(3);
  const GateRotation rotation = gate_rotation(50, kHidden, 8, kBlocks);
  GateWeights weights = random_weights(11);
  const double before = slow_loss(weights, example, 50, 8);
  const auto losses = fit_gate(weights, rotation, {example}, {example}, {200, 0.02, 0}, {});
  EXPECT_NEAR(losses.front().train, before, 1e-4);
  EXPECT_NEAR(losses.back().train, slow_loss(weights, example, 50, 8), 1e-4);
  EXPECT_LT(losses.back().train, 0.2 * before);
  EXPECT_FALSE(weights.q.requires_grad());
}

TEST(GateLearning, DescentFindsWhatAnotherGateKnows) {
  // The target is the scores of a gate: the loss can fall to 0.
  const GateRotation rotation = gate_rotation(50, kHidden, 8, kBlocks);
  std::vector<GateExample> train, held_out;
  const GateWeights teacher = random_weights(20);
  for (unsigned seed = 30; seed < 90; seed += 3) {
    GateExample example = random_example(seed);
    const auto rows = [&](const at::Tensor& input, const at::Tensor& weight) {
      const at::Tensor out = input.bmm(weight);
      const at::Tensor a = out.slice(2, 0, kHidden / 2), b = out.slice(2, kHidden / 2);
      return at::cat({a * rotation.cos - b * rotation.sin, a * rotation.sin + b * rotation.cos}, 2);
    };
    const at::Tensor x = rows(example.queries, teacher.q);
    const at::Tensor y =
        rows(example.keys, teacher.k).repeat_interleave(kHeads / kKvHeads, 0, std::nullopt);
    example.target = (x.bmm(y.transpose(1, 2)) / std::sqrt(kHidden))
                         .masked_fill(at::ones({kBlocks, kBlocks}, at::kBool).triu(1), -1e9)
                         .softmax(2);
    (seed < 78 ? train : held_out).push_back(example);
  }
  GateWeights weights = initial_gate(kHeads, kKvHeads, kDim, kHidden, 0.5, 1);
  const auto losses = fit_gate(weights, rotation, train, held_out, {300, 0.03, 0}, {});
  EXPECT_EQ(losses.front().step, 0);
  EXPECT_EQ(losses.back().step, 300);
  EXPECT_LT(losses.back().train, 0.2 * losses.front().train);
  EXPECT_LT(losses.back().held_out, 0.6 * losses.front().held_out);
  // The weights handed back are those of the last loss, for inputs as they were.
  double mean = 0;
  for (const GateExample& example : held_out)
    mean += slow_loss(weights, example, 50, 8) / static_cast<double>(held_out.size());
  EXPECT_NEAR(mean, losses.back().held_out, 1e-4);
}

TEST(GateLearning, TheFirstGateScoresMeanQueriesAgainstMeanKeys) {
  const GateWeights weights = initial_gate(1, 1, 4, 8, 0.5, 3);
  const at::Tensor query = random_tensor({1, 1, 4}, 1), key = random_tensor({1, 1, 12}, 2);
  const at::Tensor x = query.bmm(weights.q), y = key.bmm(weights.k);
  const double logit = (x * y).sum().item<double>() / std::sqrt(8.0);
  const double expected = 0.5 * (query * key.slice(2, 8)).sum().item<double>();
  EXPECT_NEAR(logit, expected, 0.15);
}

TEST(GateLearning, TargetsArePooledAttention) {
  const SmallTrace trace;
  const selection::Cell cell =
      session::load_cell(trace.session(), 1, 0, {0, trace.num_tokens(), trace::Phase::Prefill});
  const selection::GatePools pools(trace.session().shape(), 8, "test");
  for (const GateTarget target : {GateTarget::Max, GateTarget::Sum}) {
    const GateExample example = gate_example(cell, pools, 8, target);
    const int blocks = (trace.num_tokens() + 7) / 8;
    ASSERT_EQ(example.last_row, blocks);
    for (int head = 0; head < 4; ++head)
      for (int i = 0; i < blocks; ++i) {
        std::vector<double> expected;
        double total = 0;
        for (int j = 0; j < blocks; ++j) {
          double pooled = 0;
          for (int row = i * 8; row < std::min(trace.num_tokens(), i * 8 + 8); ++row)
            for (int key = j * 8; key < std::min(trace.num_tokens(), j * 8 + 8); ++key) {
              const double p = trace.probability(1, head, row, key);
              pooled = target == GateTarget::Max ? std::max(pooled, p) : pooled + p;
            }
          expected.push_back(pooled);
          total += pooled;
        }
        for (int j = 0; j < blocks; ++j)
          EXPECT_NEAR(at3(example.target, head, i, j), expected[j] / total, 1e-5);
      }
  }
}

class CalibrationFiles : public ::testing::Test {
 protected:
  static SmallTraceShape long_shape() {
    SmallTraceShape shape;
    shape.chunk_lengths.assign(12, 16);
    return shape;
  }
  PatternSearchOptions search_of(const SmallTrace& trace, double max_density) const {
    PatternSearchOptions options;
    options.trace = trace.session().info().path;
    options.output = folder_ / "patterns.json";
    options.max_density = max_density;
    return options;
  }

  const TemporaryFolder folder_;
};

TEST_F(CalibrationFiles, TrainsAGateThatTheMethodTakes) {
  const SmallTrace trace(long_shape());
  GateTrainingOptions options;
  options.traces = {trace.session().info().path};
  options.output = folder_ / "gate.safetensors";
  options.block_size = 8;
  options.hidden = 8;
  options.steps = 40;
  options.learning_rate = 0.01;
  const GateTrainingReport report = train_gate(options, {});
  EXPECT_EQ(report.num_layers, 2);
  EXPECT_EQ(report.train_blocks, 12);  // of 24, without the first and the last quarter
  EXPECT_EQ(report.held_out_blocks, 6);
  EXPECT_LT(report.losses.back().train, report.losses.front().train);
  const SafetensorsFile file(options.output, "");
  EXPECT_EQ(file.metadata().at("block_size"), "8");
  EXPECT_EQ(file.metadata().at("model_hash"), trace.session().info().model.file_hash);
  EXPECT_EQ(file.entries().at("model.layers.1.self_attn.attn_gate.mask_linear_k.weight").shape,
            (std::vector<std::int64_t>{2, 24, 8}));
  ASSERT_FALSE(report.recalls.empty());
  std::set<std::string> methods;
  for (const GateRecall& recall : report.recalls) {
    methods.insert(recall.method);
    EXPECT_GT(recall.cells, 0);
    EXPECT_GT(recall.mass_recall, 0.05);
    EXPECT_LE(recall.mass_recall, 1.0);
    EXPECT_NEAR(recall.density, report.recalls.front().density, 0.02) << recall.method;
  }
  EXPECT_EQ(methods,
            (std::set<std::string>{"flash_prefill", "random", "seer_attention", "xattention"}));
  EXPECT_THROW(train_gate(options, {}), Error);  // the file exists
  options.force = true;
  const std::vector<float> weights =
      file.read("model.layers.1.self_attn.attn_gate.mask_linear_q.weight");
  train_gate(options, {});
  EXPECT_EQ(SafetensorsFile(options.output, "")
                .read("model.layers.1.self_attn.attn_gate.mask_linear_q.weight"),
            weights);
}

TEST_F(CalibrationFiles, RefusesTracesThatDoNotGoTogether) {
  const SmallTrace trace(long_shape());
  SmallTraceShape first_layer = long_shape();
  first_layer.layers = {0};
  const SmallTrace other(first_layer);
  const SmallTrace brief;
  GateTrainingOptions options;
  options.output = folder_ / "gate";
  options.block_size = 8;
  options.traces = {trace.session().info().path, other.session().info().path};
  EXPECT_THROW(train_gate(options, {}), Error);
  options.traces = {brief.session().info().path};
  EXPECT_THROW(train_gate(options, {}), Error);
  EXPECT_FALSE(fs::exists(options.output));
}

// Recall and density of the file's patterns, pair by pair.
TEST_F(CalibrationFiles, SearchedPatternsKeepWhatTheReportSays) {
  const SmallTraceShape shape = {.chunk_lengths = {160, 60, 40}};
  const SmallTrace trace(shape);
  const PatternSearchOptions options = search_of(trace, 0.8);
  const PatternSearchReport report = search_patterns(options, {});
  EXPECT_EQ(report.num_heads, 8);
  EXPECT_EQ(report.over_budget, 0);
  EXPECT_LE(report.found.density, 0.8);
  EXPECT_DOUBLE_EQ(report.fallback.recall, 1);
  EXPECT_DOUBLE_EQ(report.fallback.density, 1);
  const auto config = selection::read_patterns(options.output, trace.session().shape());
  double recall = 0;
  for (const auto& layer : config)
    for (const auto& [head, pattern] : layer) recall += pattern.score / 8;
  EXPECT_NEAR(recall, report.found.recall, 1e-12);
  EXPECT_GT(recall, report.found.density);
  EXPECT_THROW(search_patterns(options, {}), Error);  // the file exists

  // What the best pattern of one head keeps in the last chunk is what the score says of it.
  const auto pattern = selection::pattern_of(config, 1, 2);
  double slow = 0;
  for (const int chunk : {1, 2}) {
    const trace::ChunkInfo& span = trace.session().info().chunks[static_cast<std::size_t>(chunk)];
    const selection::Cell cell = session::load_cell(trace.session(), 1, chunk, span);
    ASSERT_NE(pattern.type, selection::PatternType::BlockSparse);
    const auto lines = lines_of(pattern, observe_attention(cell)[2]);
    double kept = 0, whole = 0;
    for (int key = 0; key < span.begin; ++key) {
      double mass = 0;
      bool seen = lines.columns[key] != 0;
      for (int row = span.begin; row < span.end(); ++row) {
        mass += trace.probability(1, 2, row, key);
        seen = seen || lines.slashes[row - key] != 0;
      }
      whole += mass;
      if (seen) kept += mass;
    }
    slow += kept / whole / 2;
  }
  EXPECT_NEAR(slow, pattern.score, 1e-5);
}

TEST_F(CalibrationFiles, WithNothingSmallEnoughTheSmallestIsTaken) {
  const SmallTrace trace(long_shape());
  PatternSearchOptions options = search_of(trace, 0);
  const PatternSearchReport report = search_patterns(options, {});
  EXPECT_EQ(report.over_budget, 8);
  const SmallTrace without_past({.chunk_lengths = {40}});
  options.trace = without_past.session().info().path;
  options.force = true;
  EXPECT_THROW(search_patterns(options, {}), Error);
}

}  // namespace
}  // namespace kvloupe::calibration
