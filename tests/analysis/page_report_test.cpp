// Pages against plain loops over the trace, and moves from step to step against sets made by hand.
#include "core/analysis/page_report.h"

#include "core/base/error.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis::testing {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

constexpr int kLayer = 1;
constexpr int kSize = 4;

SmallTraceShape shape() {
  SmallTraceShape s = {.chunk_lengths = {16, 13}};
  s.decoded = 5;  // positions 29 to 33
  return s;
}

selection::MethodSpec quest(const SmallTrace& trace, const std::string& more = "") {
  return selection::MethodSpec::parse("quest:budget_tokens=12,skip_layers=0,page_size=4" + more)
      .resolved(trace.session().shape());
}

// A run of one head whose decode steps took these pages.
replay::ReplayResult made_by_hand(const SmallTrace& trace,
                                  const std::vector<std::vector<int>>& steps) {
  replay::ReplayResult run;
  run.method = quest(trace).canonical();
  run.row_axis = trace::RowAxis::QHead;
  run.chunks = trace.session().info().chunks;
  run.layers = {kLayer};
  for (std::size_t chunk = 0; chunk < run.chunks.size(); ++chunk) {
    replay::ReplayCell cell;
    cell.layer = kLayer;
    cell.chunk = static_cast<int>(chunk);
    cell.span = run.chunks[chunk];
    cell.rows.resize(4);
    if (chunk < 2) {
      cell.dense_reason = trace::DenseReason::MethodRule;
    } else {
      for (const int page : steps[chunk - 2])
        for (int token = page * kSize; token < std::min((page + 1) * kSize, cell.span.begin);
             ++token)
          cell.rows[3].positions.push_back(token);
    }
    run.cells.push_back(cell);
  }
  return run;
}

PageReport report_of(const SmallTrace& trace, const replay::ReplayResult& run, int chunk,
                     int q_head = 3) {
  return page_report(trace.session(), quest(trace), run, kLayer, chunk, q_head, {});
}

// Largest value of `score(query, token)` or of its channel-wise bound, from the definition.
struct Expected {
  double bound = -1e30, best = -1e30;
};
Expected expected_page(const SmallTrace& trace, const trace::ChunkInfo& span, int q_head, int begin,
                       int end) {
  const int dim = trace.shape().head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  Expected expected;
  for (int query = span.begin; query < span.end(); ++query) {
    const float* q = trace.query(kLayer, q_head, query);
    double bound = 0;
    for (int c = 0; c < dim; ++c) {
      double most = -1e30;
      for (int token = begin; token < end; ++token)
        most = std::max(most, double{q[c]} * double{trace.key(kLayer, q_head / 2, token)[c]});
      bound += most;
    }
    expected.bound = std::max(expected.bound, scale * bound);
    for (int token = begin; token < end; ++token) {
      double product = 0;
      for (int c = 0; c < dim; ++c)
        product += double{q[c]} * double{trace.key(kLayer, q_head / 2, token)[c]};
      expected.best = std::max(expected.best, scale * product);
    }
  }
  return expected;
}

TEST(PageReport, BoundsAndBestLogitsFollowTheDefinition) {
  const SmallTrace trace(shape());
  const replay::ReplayResult run =
      replay::replay(trace.session(), {quest(trace), {kLayer}, {}, {}, false, false}, {});
  for (const int chunk : {1, 2, 5})
    for (const int head : {0, 3}) {
      const PageReport report = report_of(trace, run, chunk, head);
      const trace::ChunkInfo& span = report.span;
      ASSERT_EQ(static_cast<int>(report.pages.size()), (span.begin + kSize - 1) / kSize);
      // Decode: the new token is in the last page, if that holds past keys too.
      const int seen = chunk >= 2 ? span.end() : span.begin;
      for (std::size_t page = 0; page < report.pages.size(); ++page) {
        const PageScore& score = report.pages[page];
        EXPECT_EQ(score.begin, static_cast<int>(page) * kSize);
        EXPECT_EQ(score.end, std::min(score.begin + kSize, seen));
        const Expected expected = expected_page(trace, span, head, score.begin, score.end);
        EXPECT_NEAR(score.bound, expected.bound, 1e-4);
        EXPECT_NEAR(score.best, expected.best, 1e-4);
        EXPECT_GE(score.looseness(), -1e-4F);
      }
    }
}

TEST(PageReport, VerdictsCompareWithAPerfectBound) {
  const SmallTrace trace(shape());
  const replay::ReplayResult run =
      replay::replay(trace.session(), {quest(trace), {kLayer}, {}, {}, false, false}, {});
  const PageReport report = report_of(trace, run, 3, 2);  // position 30: page 7 begins at 28
  ASSERT_EQ(report.pages.size(), 8U);
  EXPECT_EQ(report.forced, 1);
  EXPECT_EQ(report.pages[7].verdict, PageVerdict::Forced);
  // Three pages by budget: the last one and two by bound.
  EXPECT_EQ(report.hits + report.wastes, 2);
  EXPECT_EQ(report.hits + report.misses, 2);
  std::vector<double> best;
  for (int page = 0; page < 7; ++page) best.push_back(double{report.pages[page].best});
  std::vector<double> sorted = best;
  std::sort(sorted.rbegin(), sorted.rend());
  for (int page = 0; page < 7; ++page) {
    const PageVerdict verdict = report.pages[page].verdict;
    EXPECT_EQ(verdict == PageVerdict::Hit || verdict == PageVerdict::Miss, best[page] >= sorted[1]);
    const auto& selected = run.find(kLayer, 3)->rows[2].positions;
    EXPECT_EQ(report.pages[page].taken(),
              std::count(selected.begin(), selected.end(), page * kSize) == 1);
  }
  EXPECT_DOUBLE_EQ(report.page_recall(), report.hits / 2.0);
}

// A run recorded before schema 1.3 says which keys were selected, not which by rule.
TEST(PageReport, TheForcedPageIsKnownWithoutTheRecord) {
  const SmallTrace trace(shape());
  replay::ReplayResult run =
      replay::replay(trace.session(), {quest(trace), {kLayer}, {}, {}, false, false}, {});
  for (replay::ReplayCell& cell : run.cells)
    for (trace::SelectedRow& row : cell.rows) row.forced.clear();
  // Positions 29 and 31 stand in page 7; 32 begins page 8, which has no past key then.
  EXPECT_EQ(report_of(trace, run, 2).pages.back().verdict, PageVerdict::Forced);
  EXPECT_EQ(report_of(trace, run, 4).pages.back().verdict, PageVerdict::Forced);
  EXPECT_EQ(report_of(trace, run, 5).forced, 0);
  EXPECT_EQ(report_of(trace, run, 5).hits + report_of(trace, run, 5).wastes, 2);
  EXPECT_EQ(report_of(trace, run, 1).pages.back().verdict, PageVerdict::Forced);
}

// Five steps. Page 1 is dropped at the second and comes back at the third; page 0 comes back at the
// last one, two steps after it was dropped.
TEST(PageReport, MovesAndChurnOfStepsMadeByHand) {
  const SmallTrace trace(shape());
  const replay::ReplayResult run =
      made_by_hand(trace, {{0, 1, 2}, {0, 2, 3}, {1, 2, 3}, {1, 2, 3}, {0, 5, 6}});
  const PageReport report = report_of(trace, run, 6);
  ASSERT_EQ(report.steps.size(), 5U);
  const std::vector<int> fresh = {3, 1, 0, 0, 2}, reselected = {0, 0, 1, 0, 1};
  const std::vector<double> jaccard = {0, 2.0 / 4, 2.0 / 4, 1, 0.0 / 6};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(report.steps[i].chunk, static_cast<int>(i) + 2);
    EXPECT_EQ(report.steps[i].taken, 3);
    EXPECT_EQ(report.steps[i].fresh, fresh[i]);
    EXPECT_EQ(report.steps[i].reselected, reselected[i]);
    ASSERT_EQ(report.steps[i].jaccard.has_value(), i > 0);
    if (i > 0) {
      EXPECT_DOUBLE_EQ(*report.steps[i].jaccard, jaccard[i]);
    }
  }
  using enum PageMove;
  EXPECT_EQ(report.steps[1].moves,
            (std::vector<PageMove>{Kept, Dropped, Kept, New, Out, Out, Out, Out}));
  EXPECT_EQ(report.steps[2].moves,
            (std::vector<PageMove>{Dropped, Reselected, Kept, Kept, Out, Out, Out, Out}));
  EXPECT_EQ(report.steps[4].moves, (std::vector<PageMove>{Reselected, Dropped, Dropped, Dropped,
                                                          Out, New, New, Out, Out}));
  // Page 8 has one past key, at 32.
  EXPECT_EQ(report.pages[0].move, Reselected);
  EXPECT_EQ(report.pages[8].move, Out);
}

// Steps of the prompt and of decode are not mixed, and dense cells are no steps.
TEST(PageReport, AStepFollowsThoseOfItsPhase) {
  const SmallTrace trace(shape());
  const replay::ReplayResult run =
      replay::replay(trace.session(), {quest(trace), {kLayer}, {}, {}, false, false}, {});
  const PageReport prefill = report_of(trace, run, 1);
  ASSERT_EQ(prefill.steps.size(), 1U);  // chunk 0 has no past
  EXPECT_EQ(prefill.steps[0].chunk, 1);
  EXPECT_FALSE(prefill.steps[0].jaccard.has_value());
  EXPECT_EQ(report_of(trace, run, 4).steps.size(), 5U);
}

TEST(PageReport, DenseCellsHaveBoundsAndNoVerdicts) {
  const SmallTrace trace(shape());
  const auto spec = quest(trace, ",prefill=dense");
  const replay::ReplayResult run =
      replay::replay(trace.session(), {spec, {kLayer}, {}, {}, false, false}, {});
  const PageReport report = page_report(trace.session(), spec, run, kLayer, 1, 0, {});
  EXPECT_EQ(report.dense_reason, trace::DenseReason::MethodRule);
  EXPECT_EQ(report.pages.size(), 4U);
  EXPECT_TRUE(report.steps.empty());
  for (const PageScore& page : report.pages) EXPECT_EQ(page.verdict, PageVerdict::Neither);
  EXPECT_TRUE(page_report(trace.session(), spec, run, kLayer, 0, 0, {}).pages.empty());
}

TEST(PageReport, PlacesOutsideTheTraceAreErrors) {
  const SmallTrace trace(shape());
  const replay::ReplayResult run = made_by_hand(trace, {{0}, {0}, {0}, {0}, {0}});
  EXPECT_THROW(report_of(trace, run, 7), Error);
  EXPECT_THROW(report_of(trace, run, 2, 4), Error);
  EXPECT_THROW(page_report(trace.session(), quest(trace), run, 0, 2, 0, {}), Error);
}

}  // namespace
}  // namespace kvloupe::analysis::testing
