// Sentences that views begin with, on answers made by hand.
#include "app/state/kept_of_span.h"
#include "app/state/questions/how_it_ran/trace_info.h"
#include "app/state/questions/where/layer_head_overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace kvloupe::state {
namespace {

using replay::Number;

TEST(Findings, KeptOfASpan) {
  EXPECT_EQ(words_of(KeptOfSpan{"needle", 19, 22}), "19 of needle's 22 keys are kept");
  EXPECT_EQ(words_of(KeptOfSpan{"12 picked keys", 3, 9}), "3 of the 9 picked keys are kept");
  EXPECT_EQ(words_of(KeptOfSpan{"12 picked keys", 0, 1}), "1 picked key is not kept");
  EXPECT_EQ(words_of(KeptOfSpan{"needle", 1, 22}), "1 of needle's 22 keys is kept");
  EXPECT_EQ(words_of(KeptOfSpan{"needle", 0, 22}), "None of needle's 22 keys is kept");
  EXPECT_EQ(words_of(KeptOfSpan{"key 412", 1, 1}), "key 412 is kept");
  EXPECT_EQ(words_of(KeptOfSpan{"key 412", 0, 1}), "key 412 is not kept");
}

TEST(Findings, KeptByEachMethod) {
  EXPECT_EQ(words_of({{"A", {"needle", 19, 22}}, {"B", {"needle", 0, 22}}}),
            "Of needle's 22 keys A keeps 19, B none");
  EXPECT_EQ(words_of({{"quoka", {"key 4", 1, 1}}, {"snapkv", {"key 4", 0, 1}}}),
            "quoka keeps key 4, snapkv loses it");
  EXPECT_EQ(words_of({{"quoka", {"key 4", 0, 1}}, {"snapkv", {"key 4", 0, 1}}}),
            "quoka and snapkv lose key 4");
  EXPECT_EQ(words_of({{"A", {"key 4", 1, 1}}, {"B", {"key 4", 1, 1}}}), "A and B keep key 4");
}

OverviewQuestion::Answer overview(Number number, std::vector<float> values) {
  OverviewQuestion::Answer answer;
  answer.overview.number = number;
  answer.overview.layers = {3, 7};
  answer.overview.per_kv_head = true;
  answer.overview.values = {2, 2, std::move(values)};
  for (std::size_t i = 0; i < 4; ++i)
    if (!std::isnan(answer.overview.values.values[i]))
      answer.by_worth.push_back(static_cast<std::int32_t>(i));
  answer.num_known = static_cast<int>(answer.by_worth.size());
  return answer;
}

TEST(Findings, RecallIsHeldAgainstTheOracle) {
  OverviewQuestion::Answer answer = overview(Number::MassRecall, {0.5F, 0.9F, 0.25F, NAN});
  answer.gap = {2, 2, {0.1F, 0.05F, 0.5F, NAN}};
  answer.by_worth = {2, 0, 1};
  OverviewQuestion question;
  question.asked = Number::MassRecall;
  EXPECT_EQ(overview_finding(question, answer),
            "Mass recall is furthest below the oracle's in layer 7, KV head 0 (framed): 0.25, "
            "where the oracle has 0.75.");
  answer.by_worth.clear();
  EXPECT_EQ(overview_finding(question, answer), "");
}

TEST(Findings, OtherNumbersHaveTwoEnds) {
  OverviewQuestion::Answer answer = overview(Number::Entropy, {0.5F, 0.9F, 0.25F, 1});
  answer.by_worth = {3, 1, 0, 2};
  EXPECT_EQ(
      overview_finding({}, answer),
      "Entropy is highest in layer 7, KV head 1 (framed, 1.000), lowest in layer 7, KV head 0 "
      "(0.250).");
}

TEST(Findings, OfTwoMethodsTheMeansAndWhoIsBetter) {
  OverviewDifferenceQuestion question;
  question.a.asked = Number::MassRecall;
  const auto answer = difference_of(overview(Number::MassRecall, {0.5F, 0.75F, 0.25F, NAN}),
                                    overview(Number::MassRecall, {0.25F, 1, 0.25F, 0.5F}));
  EXPECT_EQ(overview_finding(question, answer),
            "Mass recall is 0.500 for A and 0.500 for B, averaged over 3 heads. A is better in 1, "
            "B in 1.");
}

TEST(Findings, WhatATraceHolds) {
  trace::TraceInfo info;
  info.model.name = "SmolLM2";
  info.num_tokens = 1030;
  info.chunks.resize(6);
  EXPECT_EQ(trace_finding(info, {}), "SmolLM2 read 1,030 tokens in 6 chunks. No run was recorded.");
  info.runs.resize(1);
  info.chunks[4].phase = info.chunks[5].phase = trace::Phase::Decode;
  EXPECT_EQ(trace_finding(info, {0.5F}),
            "SmolLM2 read 1,028 tokens in 4 chunks and decoded 2. 1 run of methods is recorded.");
  // Of prefill alone, and not of a chunk whose time is not known.
  for (trace::ChunkInfo& chunk : info.chunks) chunk.length = 128;
  EXPECT_EQ(trace_finding(info, {0.25F, 0.5F, 1, NAN, 9, 9}),
            "SmolLM2 read 1,028 tokens in 4 chunks (512 a second in chunk 0, 128 in chunk 2) and "
            "decoded 2. 1 run of methods is recorded.");
}

}  // namespace
}  // namespace kvloupe::state
