// Scores of samples against numbers worked out by hand, and intervals against published ones.
#include "core/analysis/eval_scores.h"

#include "core/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kvloupe::analysis {
namespace {

using trace::Results;
using trace::ResultSample;

// Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), Table I,
// method 3 (score, without continuity correction).
TEST(EvalScores, WilsonsIntervalIsThatOfThePaper) {
  const auto expect = [](int hits, int count, double low, double high) {
    const auto [from, to] = wilson_interval(static_cast<double>(hits) / count, count);
    EXPECT_NEAR(from, low, 5e-5) << hits << " of " << count;
    EXPECT_NEAR(to, high, 5e-5) << hits << " of " << count;
  };
  expect(81, 263, 0.2553, 0.3662);
  expect(15, 148, 0.0624, 0.1605);
  expect(0, 20, 0, 0.1611);
  expect(1, 29, 0.0061, 0.1718);
}

TEST(EvalScores, SignTestCountsCoinTosses) {
  EXPECT_TRUE(std::isnan(sign_test(0, 0)));
  EXPECT_NEAR(sign_test(0, 1), 1, 1e-12);
  EXPECT_NEAR(sign_test(3, 0), 0.25, 1e-12);
  EXPECT_NEAR(sign_test(2, 8), 2 * 56 / 1024.0, 1e-12);  // 1 + 10 + 45 of 2^10
  EXPECT_NEAR(sign_test(8, 2), sign_test(2, 8), 1e-15);
  EXPECT_NEAR(sign_test(5, 5), 1, 1e-12);
  EXPECT_NEAR(sign_test(1000000, 1000000), 1, 1e-6);
}

TEST(EvalScores, NumbersInTextsAreOrderedBySize) {
  std::vector<std::string> texts{"quoka 1024", "quoka 64", "h2o",   "12.5", "100",
                                 "quoka 064",  "50",       "quoka", "0"};
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(texts.begin(), texts.end(), random);
    std::sort(texts.begin(), texts.end(), reads_before);
    EXPECT_EQ(texts, (std::vector<std::string>{"0", "12.5", "50", "100", "h2o", "quoka",
                                               "quoka 064", "quoka 64", "quoka 1024"}));
  }
}

ResultSample sample(const std::string& method, const std::string& task, int question, double score,
                    const std::string& refused = "") {
  ResultSample made;
  made.method = method;
  made.task = task;
  made.sample = task + std::to_string(question);
  made.score = score;
  made.refused = refused;
  return made;
}

Results four_questions() {
  Results results;
  const double nan = ResultSample::kUnknown;
  for (int i = 0; i < 4; ++i) results.samples.push_back(sample("dense", "a", i, i < 3 ? 1 : 0));
  // Right where dense is wrong, wrong where it is right, alike in one; one was not answered.
  results.samples.push_back(sample("quoka", "a", 0, 0));
  results.samples.push_back(sample("quoka", "a", 1, 1));
  results.samples.push_back(sample("quoka", "a", 3, 1));
  results.samples.push_back(sample("quoka", "a", 2, nan, "too long"));
  results.samples.push_back(sample("quoka", "b", 9, 0.5));
  return results;
}

ScoreTable table_of(const Results& results) {
  return score_table(
      results, [](const ResultSample& one) { return one.method; },
      [](const ResultSample& one) { return one.task; }, "dense", {"quoka"});
}

TEST(EvalScores, MethodsAreComparedOnTheSameSamples) {
  const Results results = four_questions();
  const ScoreTable table = table_of(results);
  EXPECT_EQ(table.rows, (std::vector<std::string>{"quoka", "dense"}));
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a", "b"}));
  const ScoreCell& quoka = table.at(0, 0);
  EXPECT_EQ(quoka.scored, 3);
  EXPECT_EQ(quoka.refused, 1);
  EXPECT_EQ(quoka.samples.size(), 4U);
  EXPECT_NEAR(quoka.mean, 2.0 / 3, 1e-12);
  EXPECT_EQ(quoka.paired, 3);  // dense has 1, 1, 0 there
  EXPECT_NEAR(quoka.paired_mean, 2.0 / 3, 1e-12);
  EXPECT_NEAR(quoka.their_mean, 2.0 / 3, 1e-12);  // not 0.75: it is of these three
  EXPECT_NEAR(quoka.difference, 0, 1e-12);
  EXPECT_NEAR(quoka.loss, 0, 1e-12);
  EXPECT_NEAR(quoka.relative, 1, 1e-12);
  EXPECT_EQ(quoka.better, 1);
  EXPECT_EQ(quoka.worse, 1);
  EXPECT_NEAR(quoka.p, 1, 1e-12);
  const ScoreCell& alone = table.at(0, 1);
  EXPECT_EQ(alone.paired, 0);  // dense was not asked
  EXPECT_TRUE(std::isnan(alone.difference));
  EXPECT_NEAR(alone.mean, 0.5, 1e-12);
  EXPECT_NEAR(table.at(1, 0).mean, 0.75, 1e-12);
  EXPECT_EQ(table.at(1, 0).paired, 0);  // with itself
  EXPECT_TRUE(table.at(1, 1).samples.empty());
}

TEST(EvalScores, LessIsBetterOfALoss) {
  Results results;
  results.samples = {sample("dense", "loss", 0, 2.5), sample("quoka", "loss", 0, 2.75)};
  for (ResultSample& one : results.samples) one.higher_is_better = false;
  const ScoreTable table = table_of(results);
  EXPECT_EQ(table.at(0, 0).worse, 1);
  EXPECT_EQ(table.at(0, 0).better, 0);
  EXPECT_NEAR(table.at(0, 0).difference, 0.25, 1e-12);
  EXPECT_NEAR(table.at(0, 0).loss, 0.25, 1e-12);
  EXPECT_TRUE(std::isnan(table.at(0, 0).low));  // no share
}

// A method that scores 0 everywhere has no share of a task that counts to 100.
TEST(EvalScores, AnIntervalIsOfTasksWhoseScoresAreShares) {
  Results results;
  results.samples = {sample("dense", "bleu", 0, 35),  sample("quoka", "bleu", 0, 0),
                     sample("dense", "loss", 0, 0.5), sample("quoka", "loss", 0, 0.75),
                     sample("dense", "niah", 0, 1),   sample("quoka", "niah", 0, 0)};
  for (const std::size_t loss : {2, 3}) results.samples[loss].higher_is_better = false;
  const ScoreTable table = table_of(results);
  for (const std::size_t row : {0, 1}) {
    EXPECT_TRUE(std::isnan(table.at(row, 0).low)) << "bleu";
    EXPECT_TRUE(std::isnan(table.at(row, 1).low)) << "loss";
    EXPECT_FALSE(std::isnan(table.at(row, 2).low)) << "niah";
  }
}

// Samples that share neither method nor task ask for a cell each with each.
TEST(EvalScores, MoreCellsThanAnybodyReadsAreRefused) {
  Results results;
  for (int i = 0; i < 300; ++i)
    results.samples.push_back(sample(std::to_string(i), std::to_string(i), i, 1));
  try {
    table_of(results);
    FAIL() << "it was laid out";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("300 rows and 300 columns"));
  }
}

}  // namespace
}  // namespace kvloupe::analysis
