// The views worst_misses and head_merge and the metric merge_loss: what they list against plain loops,
// what they say where there is nothing, and where a click on a line leads.
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/questions/why_lost/head_merge.h"
#include "app/state/questions/why_lost/worst_misses.h"
#include "tests/base/matchers.h"
#include "tests/state/small_workspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>

namespace kvloupe::state {
namespace {

using replay::Stage;

constexpr int kWindow = 6;
constexpr const char* kNewest = "sliding_window:budget_tokens=6";
constexpr const char* kBest = "oracle:budget_tokens=6";

class LostKeysViews : public testing::SmallTraceViews {
 protected:
  // Two layers, four query heads on two KV heads. Few queries give little in chunk 1: what is dropped
  // there is wanted more later.
  LostKeysViews() : SmallTraceViews({.chunk_lengths = {16, 4, 16, 17}}) {}

  // Sorted by text the tokens run backwards.
  void describe(OpenTrace& opened) const override {
    for (int i = 0; i < trace_.num_tokens(); ++i)
      opened.text.push_back(std::string(1, static_cast<char>('z' - i / 3)));
    opened.token_label = opened.text;
  }

  void open(const std::string& spec) {
    SmallTraceViews::open();
    choose(spec);
  }
  Result<WorstMissesQuestion> misses() {
    return test::answer(workspace_, worst_misses_question(workspace_));
  }
  Result<HeadMergeQuestion> merge(const std::string& where) {
    go_to(where);
    return test::answer(workspace_, head_merge_question(workspace_));
  }
  static int begin_of(int chunk) { return std::array{0, 16, 20, 36, 53}.at(chunk); }
  static int end_of(int chunk) { return begin_of(chunk + 1); }
  // M of the candidates of one KV head.
  std::vector<double> mass(int layer, int kv_head, int chunk) const {
    auto all = trace_.mass(layer, kv_head, begin_of(chunk), end_of(chunk));
    all.resize(static_cast<std::size_t>(begin_of(chunk)));
    return all;
  }
  // The same of one query head.
  std::vector<double> head_mass(int layer, int q_head, int chunk) const {
    std::vector<double> sums(static_cast<std::size_t>(begin_of(chunk)), 0);
    for (int t = begin_of(chunk); t < end_of(chunk); ++t)
      for (std::size_t key = 0; key < sums.size(); ++key)
        sums[key] += trace_.probability(layer, q_head, t, static_cast<int>(key));
    return sums;
  }
  // Keys of the largest values, ascending.
  static std::vector<std::int32_t> best(const std::vector<double>& values, int count) {
    std::vector<std::int32_t> keys(values.size());
    std::iota(keys.begin(), keys.end(), 0);
    std::stable_sort(keys.begin(), keys.end(), [&](auto a, auto b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
    keys.resize(std::min<std::size_t>(keys.size(), static_cast<std::size_t>(count)));
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  static double share(const std::vector<double>& values, const std::vector<std::int32_t>& keys) {
    double kept = 0;
    for (const auto key : keys) kept += values[static_cast<std::size_t>(key)];
    return kept / std::accumulate(values.begin(), values.end(), 0.0);
  }
  // What the head of a pair (two query heads a KV head) loses by the merge.
  double loss_of_head(int layer, int q_head, int chunk) const {
    const auto own = head_mass(layer, q_head, chunk);
    return share(own, best(own, kWindow)) -
           share(own, best(mass(layer, q_head / 2, chunk), kWindow));
  }
};

// Positions alone decide: all but the newest six are lost, and only a larger budget would keep them.
TEST_F(LostKeysViews, WhatAWindowLosesIsAllThatLiesBeforeIt) {
  open(kNewest);
  const auto result = misses();
  ASSERT_EQ(result.state, ResultState::Ready) << result.error;
  double whole = 0, lost = 0, most = 0;
  std::int64_t keys = 0;
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1})
      for (const int chunk : {1, 2, 3}) {
        const auto all = mass(layer, kv_head, chunk);
        for (std::size_t key = 0; key < all.size(); ++key) {
          whole += all[key];
          if (key + kWindow >= all.size()) continue;
          lost += all[key];
          most = std::max(most, all[key]);
          ++keys;
        }
      }
  const replay::LostMass& sums = result->lost.all;
  EXPECT_NEAR(sums.whole, whole, 1e-4);
  EXPECT_NEAR(sums.lost, lost, 1e-4);
  EXPECT_EQ(sums.cells, 12);
  EXPECT_EQ(result->causes, std::vector<Stage>{Stage::Budget});
  ASSERT_EQ(static_cast<std::int64_t>(result->lost.keys.size()), keys);
  EXPECT_NEAR(result->lost.keys.front().mass, most, 1e-5);
  EXPECT_TRUE(result->finished());
  EXPECT_EQ(sentence_of(result.question, *result),
            "sliding_window loses " + rough_percent(lost / whole) +
                " of all attention to past keys at a budget of 6. Why: 100 % budget.");
}

// The chunks that numbers are over: the sums, the list and the sentence are of these.
TEST_F(LostKeysViews, LossIsOfTheChosenChunksAlone) {
  open(kNewest);
  workspace_.cursor.set_numbers({NumberScope::Kind::Range, 2, 2});
  const auto result = misses();
  ASSERT_EQ(result.state, ResultState::Ready) << result.error;
  double whole = 0, lost = 0;
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1}) {
      const auto all = mass(layer, kv_head, 2);
      for (std::size_t key = 0; key < all.size(); ++key) {
        whole += all[key];
        if (key + kWindow < all.size()) lost += all[key];
      }
    }
  EXPECT_NEAR(result->lost.all.whole, whole, 1e-4);
  EXPECT_NEAR(result->lost.all.lost, lost, 1e-4);
  EXPECT_EQ(result->lost.all.cells, 4);
  EXPECT_EQ(sentence_of(result.question, *result),
            "sliding_window loses " + rough_percent(lost / whole) +
                " of all attention to past keys at a budget of 6, in chunk 2. Why: 100 % budget.");
  ASSERT_FALSE(result->lost.keys.empty());
  for (const replay::LostKey& key : result->lost.keys) EXPECT_EQ(key.chunk, 2);
  // The chunk shown, wherever that is.
  workspace_.cursor.set_numbers({NumberScope::Kind::Chunk});
  go_to("chunk=3");
  EXPECT_EQ(worst_misses_question(workspace_).chunks.list(), std::vector<int>{3});
}

// Wanted in the chosen chunks, dropped in any.
TEST_F(LostKeysViews, RegretsOfAChunkWereDroppedBeforeIt) {
  open(kNewest);
  workspace_.cursor.set_option("worst_misses.list", "regrets");
  workspace_.cursor.set_numbers({NumberScope::Kind::Range, 3, 3});
  std::set<std::tuple<int, int, int, int>> expected, found;
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1})
      for (int key = 0; key + kWindow < begin_of(2); ++key) {
        const int dropped = key + kWindow < begin_of(1) ? 1 : 2;
        const auto at = static_cast<std::size_t>(key);
        if (mass(layer, kv_head, 3)[at] > mass(layer, kv_head, dropped)[at])
          expected.insert({layer, kv_head, key, dropped});
      }
  ASSERT_FALSE(expected.empty());
  const auto result = misses();
  ASSERT_EQ(result.state, ResultState::Ready) << result.error;
  for (const replay::Regret& regret : result->lost.regrets) {
    EXPECT_EQ(regret.wanted, 3);
    found.insert({regret.layer, regret.row, static_cast<int>(regret.key), regret.dropped});
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(result->lost.all.cells, 4) << "the sums are of the chunk alone";
  for (const replay::LostKey& key : result->lost.keys) EXPECT_EQ(key.chunk, 3);
}

TEST_F(LostKeysViews, ARegretIsADroppedKeyThatALaterChunkWantsMore) {
  open(kNewest);
  workspace_.cursor.set_option("worst_misses.list", "regrets");
  // Of each key that leaves the window: M in the chunk that has it no more, and the most after that.
  std::set<std::tuple<int, int, int, int, int>> expected;
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1})
      for (int key = 0; key + kWindow < begin_of(3); ++key) {
        int dropped = -1, wanted = -1;
        double when_dropped = 0, when_wanted = 0;
        for (int chunk = 1; chunk <= 3; ++chunk) {
          if (key + kWindow >= begin_of(chunk)) continue;
          const double own = mass(layer, kv_head, chunk)[static_cast<std::size_t>(key)];
          if (dropped < 0) {
            dropped = chunk;
            when_dropped = own;
          } else if (own > when_wanted) {
            wanted = chunk;
            when_wanted = own;
          }
        }
        if (when_wanted > when_dropped) expected.insert({layer, kv_head, key, dropped, wanted});
      }
  ASSERT_FALSE(expected.empty());
  const ViewInfo& view = *find_view("worst_misses");
  ASSERT_EQ(test::problem_of_view(workspace_, view), "");
  const test::ExactTable table = test::exact(view.table(workspace_));
  ASSERT_EQ(table.columns.at(4), "token");
  std::set<std::tuple<int, int, int, int, int>> found;
  double last = 1e9;
  for (const auto& row : table.rows) {
    found.insert({std::stoi(row[1]), std::stoi(row[2]), std::stoi(row[3]), std::stoi(row[5]),
                  std::stoi(row[6])});
    EXPECT_LE(std::stod(row[8]), last);
    last = std::stod(row[8]);
  }
  EXPECT_EQ(found, expected);
}

TEST_F(LostKeysViews, TheTableNamesEveryLineOnce) {
  open("quoka:budget_tokens=6,num_queries=2");
  const ViewInfo& view = *find_view("worst_misses");
  ASSERT_EQ(test::problem_of_view(workspace_, view), "");
  const test::ExactTable table = test::exact(view.table(workspace_));
  ASSERT_EQ(table.columns, (std::vector<std::string>{"method", "layer", "row", "chunk", "key",
                                                     "token", "mass", "share", "cause"}));
  std::set<std::vector<std::string>> places;
  std::set<std::string> causes;
  double by_lines = 0;
  for (const auto& row : table.rows) {
    places.insert({row[1], row[2], row[3], row[4]});
    causes.insert(row[8]);
    by_lines += std::stod(row[6]);
    const auto all = mass(std::stoi(row[1]), std::stoi(row[2]), std::stoi(row[3]));
    const auto key = static_cast<std::size_t>(std::stoi(row[4]));
    EXPECT_NEAR(std::stod(row[6]), all[key], 1e-5);
    EXPECT_NEAR(std::stod(row[7]), all[key] / std::accumulate(all.begin(), all.end(), 0.0), 1e-5);
    EXPECT_EQ(row[5], std::string(1, static_cast<char>('z' - std::stoi(row[4]) / 3)));
  }
  EXPECT_EQ(places.size(), table.rows.size());
  const auto result = misses();
  EXPECT_NEAR(by_lines, result->lost.all.lost, 1e-4) << "fewer than 200 of each: all are listed";
  EXPECT_GT(causes.size(), 1U);
  EXPECT_EQ(causes.size(), result->causes.size());
}

TEST_F(LostKeysViews, LinesAreFilteredAndSorted) {
  open("quoka:budget_tokens=6,num_queries=2");
  const auto result = misses();
  ASSERT_TRUE(result);
  const auto& keys = result->lost.keys;
  const auto& tokens = workspace_.place().trace->token_label;
  const auto& columns = lost_columns();
  const auto at = [&](std::int32_t i) { return keys[static_cast<std::size_t>(i)]; };
  const auto all = lines_of(keys, {}, columns[kLostByMass], true, tokens);
  ASSERT_EQ(all.size(), keys.size());
  for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_GE(at(all[i]).mass, at(all[i + 1]).mass);
  // By text: later tokens come first.
  const auto by_token = lines_of(keys, {}, columns[0], false, tokens);
  for (std::size_t i = 0; i + 1 < by_token.size(); ++i)
    EXPECT_GE(at(by_token[i]).key / 3, at(by_token[i + 1]).key / 3);
  MissFilter filter;
  filter.layer = 1;
  filter.row = 0;
  filter.cause = result->causes.front();
  filter.span = trace::TokenSpan{"some", 4, 30};
  const auto some = lines_of(keys, filter, columns[1], false, tokens);
  const auto wanted = std::count_if(keys.begin(), keys.end(), [&](const replay::LostKey& lost) {
    return lost.layer == 1 && lost.row == 0 && lost.cause == result->causes.front() &&
           lost.key >= 4 && lost.key < 30;
  });
  EXPECT_GT(wanted, 0);
  ASSERT_EQ(static_cast<std::ptrdiff_t>(some.size()), wanted);
  for (std::size_t i = 0; i + 1 < some.size(); ++i) EXPECT_LE(at(some[i]).key, at(some[i + 1]).key);
}

TEST_F(LostKeysViews, ALineLeadsToItsPlaceAndAHeadOfTheRowStays) {
  open(kNewest);
  const auto result = misses();
  const auto& layout = result->lost.layout;
  ASSERT_EQ(layout.q_heads_per_row, 2);
  workspace_.cursor.go_to(parse_goto("layer=0,q_head=3,chunk=1"));
  const MissPlace there{1, 1, 2, 9};
  EXPECT_FALSE(is_at(workspace_.place(), there, layout));
  state::go_to(workspace_, there, layout);
  EXPECT_EQ(goto_text(workspace_.place()), "layer=1,q_head=3,chunk=2,key=9");
  EXPECT_TRUE(is_at(workspace_.place(), there, layout));
  state::go_to(workspace_, {0, 0, 3, 20}, layout);
  EXPECT_EQ(goto_text(workspace_.place()), "layer=0,q_head=0,chunk=3,key=20");
  ASSERT_TRUE(workspace_.cursor.back());
  EXPECT_TRUE(is_at(workspace_.place(), there, layout));
  // The click asks for nothing new: the whole trace was looked through.
  EXPECT_EQ(workspace_.ask(worst_misses_question(workspace_)).state, ResultState::Ready);
}

TEST_F(LostKeysViews, LayersAreShownAsTheyCome) {
  open(kNewest);
  const WorstMissesQuestion question = worst_misses_question(workspace_);
  std::set<std::vector<int>> shown;
  const auto answer =
      test::work_on(workspace_, question, [&](const WorstMissesQuestion::Answer* so_far) {
        shown.insert(so_far == nullptr ? std::vector<int>{} : so_far->lost.layers);
      });
  EXPECT_EQ(answer.lost.layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(shown, (std::set<std::vector<int>>{{}, {0}}));
}

TEST_F(LostKeysViews, SayWhyThereIsNothing) {
  const ViewInfo& view = *find_view("worst_misses");
  EXPECT_EQ(view.problem(workspace_), "Open a trace");
  EXPECT_EQ(find_view("head_merge")->problem(workspace_), "Open a trace");
  open(kBest);
  workspace_.cursor.set_option("worst_misses.keys", "needle");
  EXPECT_EQ(problem_of_view("worst_misses"), "The trace names no needle");
  workspace_.cursor.set_option("worst_misses.keys", "");
  workspace_.cursor.set_method(Slot::A, "dense");
  const auto dense = misses();
  ASSERT_EQ(dense.state, ResultState::Ready);
  EXPECT_EQ(sentence_of(dense.question, *dense), "dense chooses no keys here: none is lost.");
  workspace_.cursor.set_method(Slot::A, MethodChoice{"later:x=1", 0, std::nullopt});
  EXPECT_THAT(problem_of_view("worst_misses"), HasSubstr("does not know the method later"));
  EXPECT_THAT(problem_of_view("head_merge"), HasSubstr("does not know the method later"));
}

TEST_F(LostKeysViews, MethodsThatMergeNoHeadsSaySo) {
  open(kNewest);
  const auto why = [&](const char* spec) {
    workspace_.cursor.set_method(Slot::A, spec);
    return problem_of_view("head_merge");
  };
  EXPECT_THAT(why(kNewest), HasSubstr("brings no query heads to one score"));
  EXPECT_THAT(why("snapkv:budget_tokens=6"), HasSubstr("evicts"));
  EXPECT_THAT(why("xattention:block_size=8,stride=4,lowering=native"),
              HasSubstr("chooses for each query head alone"));
  workspace_.cursor.set_method(Slot::A, kBest);
  workspace_.cursor.go_to(parse_goto("chunk=0"));
  EXPECT_EQ(problem_of_view("head_merge"),
            fmt::format("Layer {} keeps everything in chunk 0: nothing is merged.",
                        workspace_.place().layer));
}

TEST_F(LostKeysViews, EachHeadAloneAndTheMergeAreWhatTheDefinitionSays) {
  open(kBest);
  const auto result = merge("layer=1,q_head=3,chunk=2");
  ASSERT_EQ(result.state, ResultState::Ready) << result.error;
  ASSERT_EQ(result->nothing, "");
  EXPECT_EQ(result->row, 1);
  ASSERT_EQ(result->choices.heads.size(), 2U);
  const auto merged = best(mass(1, 1, 2), kWindow);
  EXPECT_EQ(result->choices.merged, merged);
  double loss = 0;
  for (const auto& head : result->choices.heads) {
    const auto own = head_mass(1, head.q_head, 2);
    const auto alone = best(own, kWindow);
    EXPECT_EQ(head.own, alone);
    EXPECT_NEAR(head.recall_alone, share(own, alone), 1e-5);
    EXPECT_NEAR(head.recall_merged, share(own, merged), 1e-5);
    std::vector<std::int32_t> lost, expected;
    for (const auto& key : head.lost) lost.push_back(key.key);
    std::set_difference(alone.begin(), alone.end(), merged.begin(), merged.end(),
                        std::back_inserter(expected));
    std::sort(lost.begin(), lost.end());
    EXPECT_EQ(lost, expected);
    std::vector<std::int32_t> gained, in_their_place;
    for (const auto& key : head.gained) gained.push_back(key.key);
    std::set_difference(merged.begin(), merged.end(), alone.begin(), alone.end(),
                        std::back_inserter(in_their_place));
    std::sort(gained.begin(), gained.end());
    EXPECT_EQ(gained, in_their_place);
    // What the lists add up to is the difference of the two shares.
    double difference = 0;
    for (const auto& key : head.gained) difference += key.mass / head.whole;
    for (const auto& key : head.lost) difference -= key.mass / head.whole;
    EXPECT_NEAR(difference, head.recall_merged - head.recall_alone, 1e-5);
    loss += loss_of_head(1, head.q_head, 2) / 2;
  }
  EXPECT_EQ(result->choices.heads.front().q_head, 2);
  EXPECT_NEAR(result->choices.merge_loss(), loss, 1e-5);
  EXPECT_THAT(sentence_of(result.question, *result), HasSubstr("KV head 1"));
  // Both heads of the row have one answer.
  workspace_.cursor.go_to(parse_goto("q_head=2"));
  EXPECT_EQ(key_of(head_merge_question(workspace_)), key_of(result.question));
  workspace_.cursor.go_to(parse_goto("q_head=1"));
  EXPECT_NE(key_of(head_merge_question(workspace_)), key_of(result.question));
}

TEST_F(LostKeysViews, MergeLossOfAllLayersIsTheMeanOverHeads) {
  open(kBest);
  workspace_.cursor.set_option("layer_head_overview.metric", "merge_loss");
  workspace_.cursor.go_to(parse_goto("chunk=3"));
  const auto here = test::answer(workspace_, overview_question(workspace_));
  ASSERT_EQ(here.state, ResultState::Ready) << here.error;
  ASSERT_EQ(here->overview.values.rows, 2);
  ASSERT_EQ(here->overview.values.cols, 2);
  EXPECT_EQ(here->q_heads_per_column, 2);
  workspace_.cursor.set_option("layer_head_overview.chunks", "all");
  const auto all = test::answer(workspace_, overview_question(workspace_));
  ASSERT_EQ(all.state, ResultState::Ready) << all.error;
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1}) {
      double mean = 0;
      for (const int chunk : {1, 2, 3}) {
        const double loss = (loss_of_head(layer, 2 * kv_head, chunk) +
                             loss_of_head(layer, 2 * kv_head + 1, chunk)) /
                            2;
        if (chunk == 3) {
          EXPECT_NEAR(here->overview.values.at(layer, kv_head), loss, 1e-5);
        }
        mean += loss / 3;
      }
      EXPECT_NEAR(all->overview.values.at(layer, kv_head), mean, 1e-5);
    }
  workspace_.cursor.set_method(Slot::A, kNewest);
  EXPECT_THAT(problem_of_view("layer_head_overview"), HasSubstr("merges none"));
}

TEST_F(LostKeysViews, SharesAreSaidRoughly) {
  EXPECT_EQ(rough_percent(0), "0 %");
  EXPECT_EQ(rough_percent(0.0004), "< 0.1 %");
  EXPECT_EQ(rough_percent(0.0123), "1.2 %");
  EXPECT_EQ(rough_percent(0.0996), "10 %");
  EXPECT_EQ(rough_percent(0.614), "61 %");
  EXPECT_EQ(budget_words(selection::MethodSpec::parse("quoka:budget_tokens=1024")), "1,024");
  EXPECT_EQ(budget_words(selection::MethodSpec::parse("dense")), "");
  EXPECT_EQ(replay::row_words({trace::RowAxis::KvHead, 3}, 2), "KV head 2");
  EXPECT_EQ(replay::row_words({trace::RowAxis::QHead, 1}, 2), "query head 2");
  EXPECT_EQ(replay::row_words({trace::RowAxis::QHead, 2}, 2), "query heads 4 to 5");
}

class SubGroupViews : public testing::SmallTraceViews {
 protected:
  SubGroupViews() : SmallTraceViews({.num_q_heads = 8}) {}
  std::vector<std::string> columns() { return table_of("layer_head_overview").columns; }
};

// Two KV heads of four query heads: pairs of these choose together.
TEST_F(SubGroupViews, TheOverviewsTableNamesTheRowsThatAMethodHas) {
  const std::string pairs =
      "compact_attention:block_size=4,sink_blocks=0,window_blocks=1,subgroup_size=2,alpha=";
  open();
  go_to("chunk=2");
  choose(pairs + "0.3");
  choose(pairs + "0.6", Slot::B);
  EXPECT_THAT(columns(), ElementsAre("layer", "subgroup", "mass_recall"));
  workspace_.cursor.set_option("layer_head_overview.show", "difference");
  EXPECT_THAT(columns(),
              ElementsAre("layer", "subgroup", "mass_recall_a", "mass_recall_b", "a_less_b"));
  workspace_.cursor.set_option("layer_head_overview.show", "one");
  workspace_.cursor.set_option("layer_head_overview.metric", "output_error");
  EXPECT_THAT(columns(), ElementsAre("layer", "q_head", "output_error"));
  choose(kBest);
  workspace_.cursor.set_option("layer_head_overview.metric", "mass_recall");
  EXPECT_THAT(columns(), ElementsAre("layer", "kv_head", "mass_recall"));
}

}  // namespace
}  // namespace kvloupe::state
