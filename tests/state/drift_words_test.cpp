// The sentences above the drift: where it is worst, and what passages lose.
#include "app/state/questions/how_it_ran/decode_drift.h"
#include "tests/base/matchers.h"

#include <limits>

namespace kvloupe {
namespace {

TEST(DriftWords, TheWorstIsNamedByTheSpanThatItsWorstTokensTouch) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  analysis::DecodeDrift drift;
  drift.excess_mean.assign(400, 0.01);
  drift.excess_mean[0] = kNone;
  trace::TraceInfo info;
  info.spans = {
      {"role_user", 0, 400}, {"haystack", 0, 390}, {"needle", 100, 120}, {"part", 105, 110}};
  EXPECT_EQ(state::worst_words(drift, info), "");

  drift.excess_mean[130] = 0.375;  // the mean of 99 to 130
  EXPECT_EQ(state::worst_words(drift, info), ", most at needle: +0.38 over 32 tokens");
  drift.excess_mean[300] = 0.5;
  EXPECT_EQ(state::worst_words(drift, info), ", most at token 300: +0.50 over 32 tokens");
  // Only what lies in the last 32 tokens counts: 119 is the needle's last.
  drift.excess_mean[300] = 0.01;
  drift.excess_mean[130] = 0.01;
  drift.excess_mean[150] = 0.2;
  EXPECT_EQ(state::worst_words(drift, info), ", most at needle: +0.20 over 32 tokens");
  drift.excess_mean[150] = 0.01;
  drift.excess_mean[151] = 0.2;
  EXPECT_EQ(state::worst_words(drift, info), ", most at token 151: +0.20 over 32 tokens");
}

TEST(DriftWords, TheFirstPassagesHaveTheirMeanLoss) {
  analysis::DecodeDrift drift;
  drift.nll.assign(400, 1);
  drift.nll[0] = std::numeric_limits<float>::quiet_NaN();
  for (int t = 100; t < 120; ++t) drift.nll[static_cast<std::size_t>(t)] = t < 110 ? 2 : 4;
  trace::TraceInfo info;
  EXPECT_EQ(state::span_loss_words(drift, info), "");
  info.spans = {{"question", 300, 310}, {"role_user", 0, 400}, {"haystack", 0, 390},
                {"needle", 100, 120},   {"part", 105, 110},    {"prefix", 390, 400}};
  EXPECT_EQ(state::span_loss_words(drift, info), ", 3.00 on needle, 1.00 on question");
  ASSERT_EQ(state::passage_losses(drift, info).size(), 2U);
  EXPECT_EQ(state::passage_losses(drift, info)[1].span.begin, 300);
  info.spans = {{"begin", 0, 2}, {"none", 0, 1}};
  EXPECT_EQ(state::span_loss_words(drift, info), ", 1.00 on begin");
}

}  // namespace
}  // namespace kvloupe
