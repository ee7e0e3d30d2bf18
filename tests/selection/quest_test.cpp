// Quest: examples computed by hand, the rules of its budgets, decode, and the two prefill replays.
#include "core/base/error.h"
#include "tests/selection/sequences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;

// One KV head of one channel in the first layer that is not skipped: key j of the text is keys[j],
// head h of the group asks queries[h] after `past` keys.
Sequence one_channel(const std::vector<float>& keys, int past,
                     const std::vector<std::vector<float>>& queries,
                     trace::Phase phase = trace::Phase::Prefill) {
  const SequenceShape shape = {.num_q_heads = static_cast<int>(queries.size()),
                               .num_kv_heads = 1,
                               .head_dim = 1,
                               .chunk_lengths = {past, static_cast<int>(keys.size()) - past},
                               .decoded = 0,
                               .layer = 2};
  Sequence sequence = random_sequence(shape, 1);
  sequence.k = keys;
  for (int head = 0; head < shape.num_q_heads; ++head)
    std::ranges::copy(queries[static_cast<std::size_t>(head)],
                      const_cast<float*>(sequence.query(head, past)));
  sequence.chunks[1].phase = phase;
  return sequence;
}

// Pages (1,2) (5,-9) (3,3) (2.5), then a chunk that asks 1 and -1: the larger bounds are 2, 9, 3 and
// 2.5.
Sequence four_pages() { return one_channel({1, 2, 5, -9, 3, 3, 2.5F, 7, 7}, 7, {{1, -1}}); }

CellSelection quest(const Sequence& sequence, const std::string& parameters) {
  return run_method(sequence, "quest:page_size=2," + parameters).cells[1];
}

Ints only_row(const CellSelection& cell) {
  EXPECT_FALSE(cell.dense_reason.has_value());
  EXPECT_EQ(cell.rows.size(), 1U);
  return cell.rows.at(0).positions;
}

TEST(Quest, TheLastPastPageIsForcedAndCounts) {
  const CellSelection cell = quest(four_pages(), "budget_tokens=4");
  EXPECT_EQ(only_row(cell), (Ints{2, 3, 6}));
  EXPECT_EQ(cell.rows[0].forced, Ints{6});
  // A budget of 5 is two pages still; 6 is three.
  EXPECT_EQ(only_row(quest(four_pages(), "budget_tokens=5")), (Ints{2, 3, 6}));
  EXPECT_EQ(only_row(quest(four_pages(), "budget_tokens=6")), (Ints{2, 3, 4, 5, 6}));
}

TEST(Quest, NothingIsForcedWithoutTheLastPage) {
  const CellSelection cell = quest(four_pages(), "budget_tokens=4,force_last_page=0");
  EXPECT_EQ(only_row(cell), (Ints{2, 3, 4, 5}));
  EXPECT_TRUE(cell.rows[0].forced.empty());
}

TEST(Quest, ABudgetBelowAPageIsOnePage) {
  EXPECT_EQ(only_row(quest(four_pages(), "budget_tokens=1")), (Ints{6}));
  EXPECT_EQ(only_row(quest(four_pages(), "budget_tokens=1,force_last_page=0")), (Ints{2, 3}));
}

TEST(Quest, TheKernelRuleKeepsTwoPagesAndAlwaysTheLast) {
  for (const char* last : {"0", "1"}) {
    const CellSelection cell =
        quest(four_pages(), fmt::format("budget_tokens=1,rule=kernel,force_last_page={}", last));
    EXPECT_EQ(only_row(cell), (Ints{2, 3, 6}));
    EXPECT_EQ(cell.rows[0].forced, Ints{6});
  }
}

TEST(Quest, PagesThatFitTheBudgetAreDense) {
  const CellSelection fits = quest(four_pages(), "budget_tokens=7");
  EXPECT_EQ(fits.dense_reason, DenseReason::FitsBudget);
  EXPECT_TRUE(fits.dense_fallback());
  // All pages by the kernels' floor of two, though the budget is too small: chosen, not fallen back.
  const Sequence two = one_channel({1, 2, 3, 4, 5}, 4, {{1}});
  EXPECT_EQ(only_row(quest(two, "budget_tokens=1,rule=kernel")), (Ints{0, 1, 2, 3}));
}

TEST(Quest, EqualBoundsKeepTheFirstPagesAndCountTheRest) {
  const Sequence equal = one_channel({1, 1, 1, 1, 1, 1, 1, 1, 5}, 8, {{1}});
  const CellSelection free = quest(equal, "budget_tokens=4,force_last_page=0");
  EXPECT_EQ(only_row(free), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(free.rows[0].ties_at_cut, 2);  // pages
  const CellSelection forced = quest(equal, "budget_tokens=4");
  EXPECT_EQ(only_row(forced), (Ints{0, 1, 6, 7}));
  EXPECT_EQ(forced.rows[0].ties_at_cut, 2);
}

// No sink is kept by rule: the first page must win by its score.
TEST(Quest, TheFirstPageHasNoPrivilege) {
  const Sequence sequence = one_channel({0, 0, 1, 1, 2, 2, 3}, 6, {{1}});
  EXPECT_EQ(only_row(quest(sequence, "budget_tokens=4")), (Ints{2, 3, 4, 5}));
}

// A page of opposing outliers promises more than it holds, and wins over the page of the best key.
TEST(Quest, ALooseBoundOutranksTheBestKey) {
  Sequence sequence = one_head_sequence(2, {4, 1}, 1, 2);
  sequence.k = {9, -9, -9, 9, 2, 2, 2, 2, 0, 0};  // products 0, 0 | 4, 4; bounds 18 and 4
  std::ranges::copy(std::vector<float>{1, 1}, const_cast<float*>(sequence.query(0, 4)));
  EXPECT_EQ(only_row(quest(sequence, "budget_tokens=2,force_last_page=0")), (Ints{0, 1}));
}

// Bounds by head (+1 and -1): pages (1,-1) 1 and 1; (5,5) 5 and -5; (-8,-8) -8 and 8; (0) 0 and 0.
TEST(Quest, ReducesAGroupInFourWays) {
  const Sequence sequence = one_channel({1, -1, 5, 5, -8, -8, 0, 9}, 7, {{1}, {-1}});
  const std::string base = "budget_tokens=2,force_last_page=0,gqa_reduce=";
  const CellSelection own = quest(sequence, base + "per_query_head");
  EXPECT_EQ(positions_of(own), (std::vector<Ints>{{2, 3}, {4, 5}}));
  EXPECT_EQ(only_row(quest(sequence, base + "union")), (Ints{2, 3, 4, 5}));
  EXPECT_EQ(only_row(quest(sequence, base + "max_score")), (Ints{4, 5}));
  EXPECT_EQ(only_row(quest(sequence, base + "mean_score")), (Ints{0, 1}));
}

TEST(Quest, AUnionHasNoCut) {
  const Sequence equal = one_channel({1, 1, 1, 1, 1, 1, 5}, 6, {{1}, {1}});
  EXPECT_EQ(quest(equal, "budget_tokens=2,gqa_reduce=union").rows[0].ties_at_cut, 0);
  EXPECT_EQ(quest(equal, "budget_tokens=4,gqa_reduce=max_score").rows[0].ties_at_cut, 1);
  EXPECT_EQ(quest(equal, "budget_tokens=4,prefill=per_query").rows[0].ties_at_cut, 0);
  const Sequence alone = one_channel({1, 1, 1, 1, 1, 1, 5}, 6, {{1}});  // also of one head
  EXPECT_EQ(quest(alone, "budget_tokens=4,gqa_reduce=union").rows[0].ties_at_cut, 0);
  EXPECT_EQ(quest(alone, "budget_tokens=4").rows[0].ties_at_cut, 1);
}

TEST(Quest, RowsFollowTheReduction) {
  const ModelShape shape = {.num_layers = 4, .num_q_heads = 6, .num_kv_heads = 2};
  const auto layout = [&](const std::string& spec) {
    return row_layout(MethodSpec::parse(spec).resolved(shape), shape);
  };
  EXPECT_EQ(layout("quest").axis, trace::RowAxis::QHead);
  EXPECT_EQ(layout("quest").q_heads_per_row, 1);
  for (const char* reduce : {"union", "max_score", "mean_score"}) {
    EXPECT_EQ(layout(fmt::format("quest:gqa_reduce={}", reduce)).axis, trace::RowAxis::KvHead);
    EXPECT_EQ(layout(fmt::format("quest:gqa_reduce={}", reduce)).q_heads_per_row, 3);
  }
}

TEST(Quest, TheFirstLayersOfTheModelAreDense) {
  Sequence sequence = four_pages();
  for (const int layer : {0, 1, 2}) {
    sequence.shape.layer = layer;
    const CellSelection cell = quest(sequence, "budget_tokens=4");
    EXPECT_EQ(cell.dense_reason.has_value(), layer < 2);
    EXPECT_FALSE(cell.dense_fallback());
    EXPECT_EQ(quest(sequence, "budget_tokens=4,skip_layers=0").dense_reason, std::nullopt);
    EXPECT_EQ(quest(sequence, "budget_tokens=7").dense_reason, DenseReason::FitsBudget);
  }
}

TEST(Quest, DensePrefillIsThePapers) {
  const CellSelection prefill = quest(four_pages(), "budget_tokens=4,prefill=dense");
  EXPECT_EQ(prefill.dense_reason, DenseReason::MethodRule);
  EXPECT_EQ(prefill.rows[0].positions.size(), 7U);
  Sequence decode = one_channel({1, 2, 5, -9, 3, 3, 2.5F, 7}, 7, {{1}}, trace::Phase::Decode);
  EXPECT_EQ(only_row(quest(decode, "budget_tokens=4,prefill=dense")), (Ints{2, 3, 6}));
}

// Pages (1,2) (2.5,-9) and (0.5,3), of which 3 is the decoded token's key: its page has bound 3.
TEST(Quest, ADecodedTokenIsInItsPage) {
  const Sequence sequence = one_channel({1, 2, 2.5F, -9, 0.5F, 3}, 5, {{1}}, trace::Phase::Decode);
  const CellSelection best = quest(sequence, "budget_tokens=2,force_last_page=0");
  EXPECT_EQ(only_row(best), (Ints{4}));
  EXPECT_TRUE(best.rows[0].forced.empty());
  const CellSelection forced = quest(sequence, "budget_tokens=4");
  EXPECT_EQ(only_row(forced), (Ints{2, 3, 4}));
  EXPECT_EQ(forced.rows[0].forced, Ints{4});
}

// The last page is the new token's own: it counts, and has no past key to show.
TEST(Quest, ADecodedTokenThatBeginsAPageTakesOneOfThem) {
  const Sequence sequence = one_channel({1, 2, 5, -9, 3}, 4, {{1}}, trace::Phase::Decode);
  const CellSelection one = quest(sequence, "budget_tokens=2");
  EXPECT_EQ(only_row(one), Ints{});
  EXPECT_TRUE(one.rows[0].forced.empty());
  EXPECT_EQ(only_row(quest(sequence, "budget_tokens=2,rule=kernel")), (Ints{2, 3}));
  EXPECT_EQ(only_row(quest(sequence, "budget_tokens=2,force_last_page=0")), (Ints{2, 3}));
  EXPECT_EQ(only_row(quest(one_channel({1, 2, 5, -9, 6}, 4, {{1}}, trace::Phase::Decode),
                           "budget_tokens=2,force_last_page=0")),
            Ints{});
}

// Each row of per_query is a decode step: their union over the chunk, cut to its past.
TEST(Quest, PerQueryRowsAreDecodeSteps) {
  const Sequence chunked =
      random_sequence({.chunk_lengths = {29, 14}, .decoded = 0, .layer = 3}, 81);
  Sequence decoded = chunked;
  decoded.chunks = {{0, 29, trace::Phase::Prefill}};
  for (int position = 29; position < 43; ++position)
    decoded.chunks.push_back({position, 1, trace::Phase::Decode});
  for (const char* options :
       {"", ",force_last_page=0", ",rule=kernel", ",gqa_reduce=union", ",gqa_reduce=mean_score"}) {
    SCOPED_TRACE(options);
    // The budget in tokens is that of the row, so the same in both.
    const std::string spec =
        fmt::format("quest:budget_tokens=13,page_size=4,prefill=per_query{}", options);
    const CellSelection rows = run_method(chunked, spec).cells[1];
    const MethodRun steps = run_method(decoded, spec);
    for (std::size_t row = 0; row < rows.rows.size(); ++row) {
      std::set<std::int32_t> expected;
      for (std::size_t step = 1; step < steps.cells.size(); ++step)
        for (const std::int32_t position : steps.cells[step].rows[row].positions)
          if (position < 29) expected.insert(position);
      EXPECT_EQ(rows.rows[row].positions, Ints(expected.begin(), expected.end()));
      EXPECT_EQ(rows.rows[row].forced,
                std::string(options) == ",force_last_page=0" ? Ints{} : Ints{28});
    }
  }
}

// A replay may begin at any chunk, go back, or ask twice.
TEST(Quest, DoesNotDependOnTheChunksSeenBefore) {
  const Sequence sequence =
      random_sequence({.chunk_lengths = {13, 9, 1, 20, 6}, .decoded = 3, .layer = 4}, 82);
  for (const char* prefill : {"chunk", "per_query", "dense"}) {
    const std::string spec = fmt::format("quest:budget_tokens=11,page_size=4,prefill={}", prefill);
    const MethodRun whole = run_method(sequence, spec);
    for (std::size_t first = 1; first < sequence.chunks.size(); ++first) {
      const auto selector = selector_for(sequence, spec);
      for (std::size_t chunk = first; chunk < sequence.chunks.size(); ++chunk)
        EXPECT_EQ(positions_of(selector->select(cell_of(sequence, static_cast<int>(chunk)))),
                  positions_of(whole.cells[chunk]));
      for (int again = 0; again < 2; ++again)
        EXPECT_EQ(positions_of(selector->select(cell_of(sequence, static_cast<int>(first)))),
                  positions_of(whole.cells[first]));
    }
  }
}

TEST(Quest, TheTitleSaysWhatExtendsThePaper) {
  const auto title = [](const std::string& spec) { return title_of(MethodSpec::parse(spec)); };
  EXPECT_EQ(find_method("quest")->title, title("quest"));
  EXPECT_EQ(title("quest"), "Quest, chunk replay (extension)");
  EXPECT_EQ(title("quest:prefill=dense"), "Quest");
  EXPECT_EQ(title("quest:prefill=per_query"), "Quest, per-query replay (extension)");
  EXPECT_EQ(title("quest:prefill=dense,gqa_reduce=union"),
            "Quest, union over the group (extension)");
  EXPECT_EQ(title("quoka"), find_method("quoka")->title);
}

TEST(Quest, CanonicalSpecAndErrors) {
  EXPECT_EQ(MethodSpec::parse("quest:budget_tokens=256").canonical(),
            "quest:budget_tokens=256,budget_ratio=0,budget_scope=past,page_size=16,prefill=chunk,"
            "rule=eval,gqa_reduce=per_query_head,skip_layers=2,force_last_page=1");
  for (const char* bad : {"quest:page_size=0", "quest:prefill=page", "quest:budget_scope=all",
                          "quest:force_last_page=2", "quest:skip_layers=-1"})
    EXPECT_THROW(MethodSpec::parse(bad), Error) << bad;
}

}  // namespace
}  // namespace kvloupe::selection::testing
