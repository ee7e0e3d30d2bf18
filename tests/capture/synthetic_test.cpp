// Synthetic traces: the planted keys are where the report says, what their queries see in them, and
// which of them each of two methods keeps.
#include "capture/run/synthetic.h"

#include "core/base/error.h"
#include "core/replay/explain.h"
#include "core/session/session.h"
#include "core/trace/trace_reader.h"
#include "tests/base/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

class Synthetic : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.length = 6144;
    options_.many_keys = 8;
    options_.few_keys = 2;
    options_.output = folder_ / "s.h5";
  }
  const TemporaryFolder folder_;
  SyntheticOptions options_;
};

std::vector<float> row(const trace::TraceReader& reader, trace::Stored what, int head,
                       std::int32_t position) {
  std::vector<float> values(static_cast<std::size_t>(reader.info().model.head_dim));
  reader.read_rows(what, 0, head, position, position + 1, values.data());
  return values;
}

double logit(const trace::TraceReader& reader, int q_head, std::int32_t query, std::int32_t key) {
  const trace::ModelInfo& model = reader.info().model;
  const auto q = row(reader, trace::Stored::Q, q_head, query);
  const auto k = row(reader, trace::Stored::K, q_head / model.gqa_group_size(), key);
  double sum = 0;
  for (std::size_t i = 0; i < q.size(); ++i)
    sum += static_cast<double>(q[i]) * static_cast<double>(k[i]);
  return model.softmax_scale * sum;
}

TEST_F(Synthetic, AQueryStandsOutInItsKeyAlone) {
  const SyntheticReport report = synthesize(options_, {});
  EXPECT_TRUE(trace::validate_trace(options_.output).empty());
  const trace::TraceReader reader(options_.output);
  ASSERT_EQ(report.few.keys.size(), 2U);
  ASSERT_EQ(report.many.keys.size(), 8U);
  EXPECT_EQ(report.few.chunk, 46);
  EXPECT_EQ(report.many.chunk, 47);
  for (const Question* question : {&report.few, &report.many})
    for (const PlantedKey& key : question->keys) {
      EXPECT_EQ(key.end - key.begin, question == &report.few ? 1 : 32);
      EXPECT_EQ(key.query / 128, question->chunk);
      for (const int head : {0, 7}) {
        EXPECT_NEAR(logit(reader, head, key.query, key.begin), 28, 1);
        EXPECT_NEAR(logit(reader, head, key.query, key.end - 1), 28, 1);
        EXPECT_NEAR(logit(reader, head, key.query, key.begin - 1), -1.5, 0.5);
        EXPECT_LT(logit(reader, head, key.query - 1, key.begin), -4);
      }
    }
}

// With fewer sampled queries than needles QuoKA loses some of many; block means lose single tokens.
TEST_F(Synthetic, EachMethodMissesWhatItsReductionHides) {
  options_.methods = {selection::MethodSpec::parse("quoka:budget_tokens=512,num_queries=4"),
                      selection::MethodSpec::parse("compact_attention")};
  const SyntheticReport report = synthesize(options_, {});
  const trace::TraceReader reader(options_.output);
  const auto share = [&](int run, const Question& question) {
    const trace::RunLayer layer = reader.read_run_layer(run, 0);
    double kept = 0, planted = 0;
    for (int kv_head = 0; kv_head < layer.num_rows; ++kv_head) {
      const auto cell = static_cast<std::size_t>(question.chunk * layer.num_rows + kv_head);
      for (const PlantedKey& key : question.keys) {
        planted += key.end - key.begin;
        for (std::int64_t i = layer.offsets[cell]; i < layer.offsets[cell + 1]; ++i) {
          const std::int32_t position = layer.positions[static_cast<std::size_t>(i)];
          kept += position >= key.begin && position < key.end ? 1 : 0;
        }
      }
    }
    return kept / planted;
  };
  EXPECT_EQ(share(0, report.few), 1);
  EXPECT_GE(share(0, report.many), 0.5);
  EXPECT_LT(share(0, report.many), 0.8);
  EXPECT_EQ(share(1, report.few), 0);
  EXPECT_EQ(share(1, report.many), 1);
}

TEST_F(Synthetic, TheSeedMakesTheSameTraceAgain) {
  options_.length = 4096;
  options_.many_keys = 3;
  const auto bytes_with = [&](std::int64_t seed) {
    options_.seed = seed;
    options_.force = true;
    synthesize(options_, {});
    const trace::TraceReader reader(options_.output);
    return std::pair{row(reader, trace::Stored::K, 1, 3000), reader.token_texts()};
  };
  const auto first = bytes_with(1);
  EXPECT_EQ(first, bytes_with(1));
  EXPECT_NE(first, bytes_with(2));
}

TEST_F(Synthetic, NumbersThatContradictEachOtherAreRefused) {
  const auto refused = [&](auto change) {
    SyntheticOptions options = options_;
    change(options);
    try {
      synthesize(options, {});
    } catch (const Error& error) {
      return error.kind() == ErrorKind::Usage && !fs::exists(options.output);
    }
    return false;
  };
  EXPECT_TRUE(refused([](SyntheticOptions& o) { o.length = 8200; }));
  EXPECT_TRUE(refused([](SyntheticOptions& o) { o.many_keys = 129; }));
  EXPECT_TRUE(refused([](SyntheticOptions& o) { o.many_keys = 117; }));
  EXPECT_TRUE(refused([](SyntheticOptions& o) { o.run_length = 129; }));
  EXPECT_TRUE(refused([](SyntheticOptions& o) {
    o.length = 4096;
    o.many_keys = 60;
  }));
}

// Of the planted tokens that a row lost, the share whose cause is this stage.
double share_lost_at(const session::TraceSession& session, const Question& question,
                     const std::string& method, replay::Stage stage, std::int64_t* lost) {
  std::int64_t found = 0;
  *lost = 0;
  for (const PlantedKey& planted : question.keys) {
    replay::ExplainRequest request;
    request.spec = selection::MethodSpec::parse(method).resolved(session.shape());
    request.chunk = question.chunk;
    request.key = planted.begin;
    request.want_needed_budget = false;
    const replay::Explanation why = replay::explain(session, request, {});
    if (why.kept) continue;
    ++*lost;
    found += why.lost_at == stage;
  }
  return *lost > 0 ? static_cast<double>(found) / static_cast<double>(*lost) : 0;
}

TEST_F(Synthetic, TheCausesComeOutAsPlanted) {
  options_.length = 8192;
  options_.many_keys = 30;
  options_.few_keys = 3;
  const SyntheticReport report = synthesize(options_, {});
  const session::TraceSession session(options_.output);
  std::int64_t lost = 0;
  // A single token drowns in the mean of its block; alone it would be among the best.
  EXPECT_EQ(share_lost_at(session, report.few, "compact_attention", replay::Stage::Unit, &lost), 1);
  EXPECT_EQ(lost, 3);
  // Sixteen of the queries stand for all: the needles of the others are lost with them.
  EXPECT_GE(share_lost_at(session, report.many, "quoka", replay::Stage::QuerySampling, &lost), 0.8);
  EXPECT_NEAR(static_cast<double>(lost), 15, 3);
}

}  // namespace
}  // namespace kvloupe::capture
