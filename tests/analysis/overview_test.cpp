// The numbers of the layer x head overview.
#include "core/analysis/overview.h"

#include "core/analysis/query_geometry.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvloupe::analysis {
namespace {

using replay::Number;
using replay::testing::SmallTrace;

TEST(OverviewOfAttention, EntropyIsThatOfTheRows) {
  const SmallTrace trace;
  const Overview overview = overview_of_attention(trace.session(), Number::Entropy, 1, {});
  EXPECT_EQ(overview.layers, (std::vector<int>{0, 1}));
  EXPECT_FALSE(overview.per_kv_head);
  ASSERT_EQ(overview.values.rows, 2);
  ASSERT_EQ(overview.values.cols, 4);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) {
      double sum = 0;
      for (int t = 16; t < 32; ++t) {
        for (int j = 0; j <= t; ++j) {
          const double p = trace.probability(layer, head, t, j);
          sum -= p * std::log(p);
        }
      }
      EXPECT_NEAR(overview.values.at(layer, head), sum / 16, 1e-5);
    }
  }
}

TEST(OverviewOfAttention, EntropyOfASingleKeyIsZero) {
  const SmallTrace trace({.chunk_lengths = {1, 3}});
  const Overview overview = overview_of_attention(trace.session(), Number::Entropy, 0, {});
  for (const float value : overview.values.values) EXPECT_NEAR(value, 0, 1e-6);
}

TEST(OverviewOfAttention, PearsonIsThatOfQueryGeometry) {
  const SmallTrace trace;
  const Overview overview = overview_of_attention(trace.session(), Number::RelevancePearson, 2, {});
  for (int head = 0; head < 4; ++head) {
    const QueryGeometry geometry = query_geometry(trace.session(), 1, 2, head, {}, {});
    EXPECT_NEAR(overview.values.at(1, head), geometry.pearson_r, 1e-6);
    EXPECT_LE(std::abs(overview.values.at(1, head)), 1);
  }
}

replay::ReplayCell cell(int layer, int chunk, std::vector<double> recalls,
                        std::vector<double> errors) {
  replay::ReplayCell result;
  result.layer = layer;
  result.chunk = chunk;
  for (const double recall : recalls) {
    result.rows.emplace_back();
    result.metrics.push_back({recall, recall / 2, (1 - recall) / 4});
  }
  result.output_error = std::move(errors);
  return result;
}

replay::ReplayResult replay_of_two_layers() {
  replay::ReplayResult result;
  result.layers = {4, 7};
  result.cells = {cell(4, 0, {1, 1}, {0, 0, 0, 0}),
                  cell(4, 1, {0.5, 0.75}, {0.1, 0.2, 0.3, 0.4}),
                  cell(4, 2, {0.25, 0.25}, {0.3, 0.2, 0.1, 0}),
                  cell(4, 3, {0, 0}, {9, 9, 9, 9}),
                  cell(7, 0, {1, 1}, {0, 0, 0, 0}),
                  cell(7, 3, {0, 0}, {9, 9, 9, 9})};
  for (replay::ReplayCell& entry : result.cells) {
    if (entry.chunk == 0) entry.dense_reason = trace::DenseReason::EmptyPast;
    if (entry.chunk == 3) entry.span.phase = trace::Phase::Decode;
  }
  return result;
}

TEST(OverviewOfReplay, AveragesTheCellsInWhichTheMethodSelected) {
  const Overview recall = overview_of_replay(replay_of_two_layers(), Number::MassRecall);
  EXPECT_TRUE(recall.per_kv_head);
  EXPECT_EQ(recall.layers, (std::vector<int>{4, 7}));
  EXPECT_FLOAT_EQ(recall.values.at(0, 0), 0.375f);
  EXPECT_FLOAT_EQ(recall.values.at(0, 1), 0.5f);
  EXPECT_TRUE(std::isnan(recall.values.at(1, 0)));  // dense or decode everywhere
  const Overview overlap = overview_of_replay(replay_of_two_layers(), Number::TopkOverlap);
  EXPECT_FLOAT_EQ(overlap.values.at(0, 1), 0.25f);
  const Overview gap = overview_of_replay(replay_of_two_layers(), Number::Gap);
  EXPECT_TRUE(gap.per_kv_head);
  EXPECT_FLOAT_EQ(gap.values.at(0, 1), 0.125f);
  const Overview error = overview_of_replay(replay_of_two_layers(), Number::OutputError);
  EXPECT_FALSE(error.per_kv_head);
  ASSERT_EQ(error.values.cols, 4);
  EXPECT_FLOAT_EQ(error.values.at(0, 3), 0.2f);
}

// Quest as published decodes sparsely and prefills densely.
TEST(OverviewOfReplay, AveragesTheDecodeStepsWhereThePromptIsDense) {
  replay::ReplayResult result = replay_of_two_layers();
  EXPECT_EQ(overview_of_replay(result, Number::MassRecall).phase, trace::Phase::Prefill);
  for (replay::ReplayCell& entry : result.cells)
    if (entry.span.phase == trace::Phase::Prefill)
      entry.dense_reason = trace::DenseReason::MethodRule;
  result.cells.push_back(cell(4, 4, {0.5, 1}, {1, 1, 1, 1}));
  result.cells.back().span.phase = trace::Phase::Decode;
  const Overview recall = overview_of_replay(result, Number::MassRecall);
  EXPECT_EQ(recall.phase, trace::Phase::Decode);
  EXPECT_FLOAT_EQ(recall.values.at(0, 0), 0.25f);
  EXPECT_FLOAT_EQ(recall.values.at(0, 1), 0.5f);
  EXPECT_FLOAT_EQ(recall.values.at(1, 0), 0);
}

TEST(OverviewOfReplay, OneChunkAlone) {
  const Overview recall = overview_of_replay(replay_of_two_layers(), Number::MassRecall, {2});
  EXPECT_FLOAT_EQ(recall.values.at(0, 0), 0.25f);
  EXPECT_TRUE(std::isnan(recall.values.at(1, 0)));
  EXPECT_FLOAT_EQ(
      overview_of_replay(replay_of_two_layers(), Number::MassRecall, {3}).values.at(1, 0), 0);
}

TEST(OverviewOfReplay, SomeChunksAreAveragedAlone) {
  replay::ReplayResult result = replay_of_two_layers();
  result.cells.push_back(cell(4, 5, {1, 0.75}, {0, 0, 0, 0}));
  const Overview later = overview_of_replay(result, Number::MassRecall, {2, 3, 5});
  EXPECT_EQ(later.phase, trace::Phase::Prefill);
  EXPECT_FLOAT_EQ(later.values.at(0, 0), 0.625F);  // of the chunks 2 and 5: 3 is a decode step
  EXPECT_FLOAT_EQ(later.values.at(0, 1), 0.5F);
}

// Two KV heads keep of the keys before the chunk: [20, 30) is watched.
TEST(OverviewOfReplay, OfAWatchedSpanTheShareOfItsKeysThatIsKept) {
  replay::ReplayResult result;
  result.layers = {4};
  const auto add = [&](int chunk, int begin, std::vector<std::vector<std::int32_t>> kept) {
    replay::ReplayCell& added = result.cells.emplace_back();
    added.layer = 4;
    added.chunk = chunk;
    added.span = {begin, 8, trace::Phase::Prefill};
    added.num_candidates = begin;
    for (auto& positions : kept) added.rows.emplace_back().positions = std::move(positions);
  };
  add(1, 16, {{1, 2}, {3}});              // none of the span is there yet
  add(2, 24, {{1, 19, 20, 23}, {5, 6}});  // [20, 24) is
  add(3, 40, {{20, 25, 29, 30}, {29}});   // all of it
  const trace::KeySet span{20, 30};
  const auto of = [&](const std::vector<int>& chunks) {
    return overview_of_replay(result, Number::SpanKept, chunks, span).values;
  };
  EXPECT_TRUE(std::isnan(of({1}).at(0, 0)));
  EXPECT_FLOAT_EQ(of({2}).at(0, 0), 0.5F);
  EXPECT_FLOAT_EQ(of({2}).at(0, 1), 0.0F);
  EXPECT_FLOAT_EQ(of({3}).at(0, 0), 0.3F);
  EXPECT_FLOAT_EQ(of({3}).at(0, 1), 0.1F);
  EXPECT_FLOAT_EQ(of({}).at(0, 0), 0.4F);  // the chunks that count
  EXPECT_FLOAT_EQ(of({}).at(0, 1), 0.05F);
}

TEST(OverviewMetrics, NamesAndNeeds) {
  EXPECT_STREQ(name_of(Number::MassRecall), "mass_recall");
  EXPECT_STREQ(name_of(Number::RelevancePearson), "relevance_pearson");
  EXPECT_STREQ(name_of(Number::Gap), "gap");
  EXPECT_STREQ(name_of(Number::SpanKept), "span_kept");
  EXPECT_TRUE(needs_method(Number::OutputError));
  EXPECT_FALSE(needs_method(Number::Entropy));
}

}  // namespace
}  // namespace kvloupe::analysis
