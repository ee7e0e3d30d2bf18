// Over which cells methods are averaged, with what weight, and the numbers that compare them with the
// oracle and with a watched span: against sums over the cells of a replay.
#include "core/replay/compare.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;

// Chunks of 16, 16, 16, 5 queries after 0, 16, 32, 48 keys.
constexpr const char* kSmall = "quoka:budget_tokens=8";
constexpr const char* kLarge = "quoka:budget_tokens=40";  // dense but in chunk 3

std::vector<MethodName> specs_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::vector<CompareRow> all_rows(const Comparison& comparison) {
  std::vector<CompareRow> rows;
  for (const CompareRow& row : comparison.rows)
    if (row.scope == "all" && row.phase == "prefill") rows.push_back(row);
  return rows;
}

ReplayResult replayed(const SmallTrace& trace, const std::string& text) {
  ReplayRequest request;
  request.spec = MethodSpec::parse(text).resolved(trace.session().shape());
  return replay(trace.session(), request, {});
}

// Mean over the rows of the cells that are not dense and that `counts` lets through.
template <typename Value, typename Weight>
double mean(const ReplayResult& result, const Value& value, const Weight& weight) {
  double sum = 0, weights = 0;
  for (const ReplayCell& cell : result.cells)
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      if (cell.dense_reason) continue;
      sum += weight(cell) * value(cell, row);
      weights += weight(cell);
    }
  return sum / weights;
}
double recall(const ReplayCell& cell, std::size_t row) { return cell.metrics[row].mass_recall; }

TEST(CompareCells, OwnCellsDifferAndItIsSaid) {
  const SmallTrace trace;
  const Comparison comparison =
      compare_methods(trace.session(), specs_of({kLarge, kSmall, "dense"}), {}, {}, {});
  const auto rows = all_rows(comparison);
  EXPECT_EQ(rows[0].cells, 2 * 2 * 1);
  EXPECT_EQ(rows[1].cells, 2 * 2 * 3);
  EXPECT_THAT(comparison.on_other_cells, ElementsAre(rows[0].method));
}

TEST(CompareCells, CommonOnesAreThoseWhereNoMethodIsDense) {
  const SmallTrace trace;
  const CompareOptions common{.cells = CellChoice::Common};
  const Comparison comparison =
      compare_methods(trace.session(), specs_of({kLarge, kSmall, "dense"}), {}, common, {});
  const auto rows = all_rows(comparison);
  const auto last_chunk = [](const ReplayCell& cell) { return cell.chunk == 3 ? 1 : 0; };
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rows[i].cells, 2 * 2 * 1);
    EXPECT_NEAR(*rows[i].numbers[Number::MassRecall],
                mean(replayed(trace, i == 0 ? kLarge : kSmall), recall, last_chunk), 1e-12);
  }
  EXPECT_TRUE(comparison.on_other_cells.empty());
  // What is dense everywhere leaves no cell to the others.
  for (const CompareRow& row : all_rows(compare_methods(
           trace.session(), specs_of({kSmall, "quoka:budget_tokens=4000"}), {}, common, {})))
    EXPECT_EQ(row.cells, 0);
}

TEST(CompareCells, WeighedByQueriesAShortChunkCountsLess) {
  const SmallTrace trace;
  const auto rows = all_rows(
      compare_methods(trace.session(), specs_of({kSmall}), {}, {.weights = Weights::Queries}, {}));
  const auto queries = [](const ReplayCell& cell) { return cell.span.length; };
  const double weighed = mean(replayed(trace, kSmall), recall, queries);
  EXPECT_NEAR(*rows[0].numbers[Number::MassRecall], weighed, 1e-12);
  EXPECT_NE(weighed, mean(replayed(trace, kSmall), recall, [](const ReplayCell&) { return 1; }));
}

TEST(CompareCells, TheGapIsToTheOracleOfAsManyKeys) {
  const SmallTrace trace;
  const char* window = "sliding_window:budget_tokens=8";
  const auto rows = all_rows(
      compare_methods(trace.session(), specs_of({window, "oracle:budget_tokens=8"}), {}, {}, {}));
  const auto one = [](const ReplayCell&) { return 1; };
  const double best = mean(replayed(trace, "oracle:budget_tokens=8"), recall, one);
  EXPECT_NEAR(*rows[0].numbers[Number::Gap], best - mean(replayed(trace, window), recall, one),
              1e-9);
  EXPECT_GT(*rows[0].numbers[Number::Gap], 0.01);
  EXPECT_NEAR(*rows[1].numbers[Number::Gap], 0, 1e-9);
}

TEST(CompareCells, OfAWatchedSpanTheKeysInThePastCount) {
  const SmallTrace trace;
  // Of [20, 40) chunk 1 (16 keys) sees none, chunk 2 (32 keys) twelve, chunk 3 all.
  const auto rows = all_rows(compare_methods(
      trace.session(), specs_of({"sliding_window:budget_tokens=10", kLarge, kSmall}), {},
      {.counted = {.watched = WatchedKeys{{20, 40}}}}, {}));
  // The newest ten: of chunk 2 22..31, all in the span; of chunk 3 38..47, two in it.
  EXPECT_NEAR(*rows[0].numbers[Number::SpanKept], (10.0 / 12 + 2.0 / 20) / 2, 1e-12);
  for (std::size_t i : {1, 2}) {
    double sum = 0;
    int cells = 0;
    for (const ReplayCell& cell : replayed(trace, i == 1 ? kLarge : kSmall).cells)
      for (const trace::SelectedRow& row : cell.rows) {
        if (cell.dense_reason || cell.span.begin <= 20) continue;
        double kept = 0;
        for (const std::int32_t position : row.positions)
          if (position >= 20 && position < 40) ++kept;
        sum += kept / (std::min(cell.span.begin, 40) - 20);
        ++cells;
      }
    EXPECT_NEAR(*rows[i].numbers[Number::SpanKept], sum / cells, 1e-12);
  }
}

TEST(CompareCells, ThoseThatDifferFromMostAreTheFewer) {
  const CellSet most{{0, 1}, {0, 2}}, other{{0, 2}};
  EXPECT_EQ(differ_from_most({most, other, most}), (std::vector{false, true, false}));
  EXPECT_EQ(differ_from_most({most, most}), (std::vector{false, false}));
  // As many of each: those that averaged more count as usual.
  EXPECT_EQ(differ_from_most({other, most}), (std::vector{true, false}));
  EXPECT_EQ(differ_from_most({other, std::nullopt, most, most}),
            (std::vector{true, false, false, false}));
  EXPECT_TRUE(differ_from_most({}).empty());
}

}  // namespace
}  // namespace kvloupe::replay
