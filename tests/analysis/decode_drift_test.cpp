// What the view decode_drift takes from a trace, against the values that were written.
#include "core/analysis/decode_drift.h"

#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::analysis {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

trace::TraceHeader header_of_two_layers() {
  trace::TraceHeader header;
  header.model.name = "tiny";
  header.model.architecture = "llama";
  header.model.num_layers = 4;
  header.model.num_q_heads = header.model.num_kv_heads = 1;
  header.model.head_dim = 2;
  header.model.hidden_size = 2;
  header.model.softmax_scale = 1;
  header.model.rope_theta = 10000;
  header.model.rope_scaling = "none";
  header.model.layer_types.assign(4, trace::LayerType::Full);
  header.mode = trace::LoopMode::ClosedLoop;
  header.layers = {1, 3};
  header.max_tokens = 7;
  header.max_chunks = 4;
  header.store = {trace::Part::Loss, trace::Part::Top, trace::Part::Drift};
  return header;
}

trace::TopTokens no_tops() {
  return {std::vector<std::int32_t>(trace::kTopTokens, -1),
          std::vector<float>(trace::kTopTokens, -kInfinity)};
}

// Chunks of 3 and 2 tokens of prefill, then two decoded tokens.
void write_drifting(const std::string& path, std::int32_t last_sampled = 2) {
  trace::TraceWriter writer(path, header_of_two_layers(), true);
  const std::vector<std::vector<float>> nll = {{kInfinity, 2, 4}, {1, 3}, {5}, {9}};
  const std::vector<std::vector<std::uint8_t>> agrees = {{0, 1, 1}, {1, 1}, {0}, {1}};
  std::int32_t begin = 0;
  for (std::size_t c = 0; c < nll.size(); ++c) {
    const auto length = static_cast<std::int32_t>(nll[c].size());
    const trace::ChunkInfo chunk{begin, length,
                                 c < 2 ? trace::Phase::Prefill : trace::Phase::Decode};
    for (const int layer : {1, 3}) writer.write_layer(chunk, {layer});
    writer.write<float>(trace::Field::Nll, chunk, nll[c]);
    writer.write_top(chunk, no_tops());
    trace::DriftChunk drift;
    drift.dense_nll = nll[c];
    for (float& value : drift.dense_nll) value /= 2;
    drift.kl.assign(nll[c].size(), 0.25F * static_cast<float>(c));
    drift.agrees = agrees[c];
    const auto number = static_cast<float>(c);
    drift.q = {number, 10 + number};
    drift.k = {20 + number, 30 + number};
    drift.dense_top = no_tops();
    writer.write_drift(chunk, drift);
    std::vector<std::int32_t> ids;
    std::vector<std::string> texts;
    for (std::int32_t t = begin; t < begin + length; ++t) {
      ids.push_back(100 + t);
      texts.push_back(std::string(1, static_cast<char>('a' + t)));
    }
    writer.end_chunk(chunk, ids, texts);
    begin += length;
  }
  writer.write_dense_answer(std::vector<std::int32_t>{105, 7}, std::vector<std::string>{"f", "xy"});
  writer.finish(std::vector<std::int32_t>{105, 106, last_sampled}, true);
}

TEST(DecodeDriftOf, ATraceIsWhatWasWritten) {
  write_drifting("drift.h5");
  const DecodeDrift drift = decode_drift(trace::TraceReader("drift.h5"));
  ASSERT_TRUE(drift.against_dense());
  EXPECT_EQ(drift.nll.size(), 7u);
  EXPECT_DOUBLE_EQ(drift.mean_nll(), (2 + 4 + 1 + 3 + 5 + 9) / 6.0);
  EXPECT_DOUBLE_EQ(drift.mean_dense_nll(), 2.0);
  // The dense losses are half of the closed loop's; the last mean is over all six that are finite.
  ASSERT_EQ(drift.excess_mean.size(), 7u);
  EXPECT_DOUBLE_EQ(drift.excess_mean[1], 1.0);
  EXPECT_DOUBLE_EQ(drift.excess_mean[6], 2.0);
  EXPECT_DOUBLE_EQ(drift.mean_kl(0), (2 * 0.25 + 0.5 + 0.75) / 7);
  EXPECT_DOUBLE_EQ(drift.mean_kl(5), (0.5 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(drift.agreement(0), 5 / 7.0);
  ASSERT_EQ(drift.q.rows, 2);
  ASSERT_EQ(drift.q.cols, 4);
  EXPECT_EQ(drift.q.at(1, 2), 12);
  EXPECT_EQ(drift.k.at(0, 3), 23);
  // The first token was sampled after position 4. Disagreement before it, at position 0, is none of the
  // answer's; after position 5 they want different tokens, which is the second step.
  EXPECT_EQ(drift.first_sampled, 4);
  EXPECT_EQ(drift.first_divergent_step, 1);
  ASSERT_EQ(drift.answer.size(), 2u);
  EXPECT_EQ(drift.answer[1].text, "g");
  EXPECT_EQ(drift.answer[1].id, 106);
  ASSERT_EQ(drift.dense_answer.size(), 2u);
  EXPECT_EQ(drift.dense_answer[1].text, "xy");
}

// It was never fed: only the dense model's answer can have its text.
TEST(DecodeDriftOf, TheLastSampledTokenIsReadFromTheDenseAnswer) {
  write_drifting("last.h5", 7);
  const DecodeDrift drift = decode_drift(trace::TraceReader("last.h5"));
  ASSERT_EQ(drift.answer.size(), 3u);
  EXPECT_EQ(drift.answer[2].text, "xy");
}

TEST(DecodeDriftOf, ATraceWithoutLossesIsRefused) {
  trace::TraceHeader header = header_of_two_layers();
  header.store = {};
  trace::TraceWriter writer("none.h5", header, true);
  const trace::ChunkInfo chunk{0, 1, trace::Phase::Prefill};
  for (const int layer : {1, 3}) writer.write_layer(chunk, {layer});
  writer.end_chunk(chunk, std::vector<std::int32_t>{1}, {"a"});
  writer.finish({}, true);
  EXPECT_THROW(decode_drift(trace::TraceReader("none.h5")), Error);
}

TEST(RunningMean, IsOfTheLastFiniteValues) {
  const std::vector<double> means = running_mean({kInfinity, 2, 4, kInfinity, 6}, 3);
  EXPECT_TRUE(std::isnan(means[0]));
  EXPECT_EQ(means[1], 2);
  EXPECT_EQ(means[2], 3);
  EXPECT_EQ(means[3], 3);
  EXPECT_EQ(means[4], 5);
}

}  // namespace
}  // namespace kvloupe::analysis
