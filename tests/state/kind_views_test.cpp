// Views of one kind of methods (lanes, blocks, pages): what stands in for a method of another kind,
// their keys, and what they precompute against plain loops over their tables.
#include "app/state/questions/how_it_works/aqua_lanes.h"
#include "app/state/questions/how_it_works/block_tables.h"
#include "app/state/questions/how_it_works/quest_pages.h"
#include "app/state/questions/how_it_works/slot_scores.h"
#include "tests/base/matchers.h"
#include "tests/state/small_workspace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace kvloupe::state {
namespace {

using test::ExactTable;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KindViewsTest : public testing::SmallTraceViews {
 protected:
  KindViewsTest() : SmallTraceViews({.chunk_lengths = {16, 16, 16, 16, 5}, .decoded = 3}) {
    others_.try_emplace("short.h5", SmallTraceShape{.chunk_lengths = {16, 7}, .decoded = 2});
  }
};

TEST_F(KindViewsTest, WithoutATraceTheySaySoAndHaveNoRows) {
  for (const char* view : {"aqua_lanes", "block_tables", "quest_pages", "slot_scores"}) {
    EXPECT_EQ(problem_of_view(view), "Open a trace");
    const Table table = find_view(view)->table(workspace_);
    EXPECT_FALSE(table.columns.empty());
    EXPECT_TRUE(table.rows.empty());
    EXPECT_TRUE(find_view(view)->array(workspace_).shape.empty());
  }
}

TEST_F(KindViewsTest, AMethodOfTheKindIsShownItself) {
  open();
  choose("static_slicing:dim_ratio=0.5,basis=self");
  EXPECT_EQ(aqua_lanes_question(workspace_).method.text, "static_slicing:dim_ratio=0.5,basis=self");
  EXPECT_EQ(aqua_lanes_question(workspace_).stand_in, "");
  choose("flash_prefill:lowering=union,block_size=4");
  EXPECT_EQ(block_tables_question(workspace_).method, workspace_.method());
  EXPECT_EQ(block_tables_question(workspace_).stand_in, "");
  choose("quest:budget_tokens=8,page_size=4,prefill=dense");
  EXPECT_EQ(quest_pages_question(workspace_).method, workspace_.method());
  EXPECT_EQ(quest_pages_question(workspace_).stand_in, "");
  for (const char* method : {"quoka:budget_tokens=8", "uniform_queries:budget_tokens=8"}) {
    choose(method);
    EXPECT_EQ(slot_scores_question(workspace_).method, workspace_.method());
    EXPECT_EQ(slot_scores_question(workspace_).stand_in, "");
  }
}

// Bases are fitted on the trace alone here: what another loses in a calibrated one is not known.
TEST_F(KindViewsTest, AnotherOpenTraceIsDrawnBesideOnRequest) {
  open();
  choose("aqua:dim_ratio=0.5,basis=self");
  workspace_.cursor.set_option("aqua_lanes.beside", "other");
  EXPECT_EQ(aqua_lanes_question(workspace_).beside, nullptr);  // none is open
  const TracePtr first = workspace_.place().trace;
  workspace_.traces.open("other.h5");
  test::settle(workspace_);
  ASSERT_NE(workspace_.place().trace, first);
  choose("aqua:dim_ratio=0.5,basis=self");
  workspace_.cursor.set_option("aqua_lanes.beside", "none");
  const AquaLanesQuestion alone = aqua_lanes_question(workspace_);
  EXPECT_EQ(alone.beside, nullptr);
  workspace_.cursor.set_option("aqua_lanes.beside", "other");
  const AquaLanesQuestion both = aqua_lanes_question(workspace_);
  EXPECT_EQ(both.beside, first);
  EXPECT_NE(both.key(), alone.key());
  EXPECT_EQ(problem_of_view("aqua_lanes"), "");
  const auto result = workspace_.ask(both);
  EXPECT_EQ(result->name_beside, first->name);
  ASSERT_EQ(result->losses_beside.size(), result->report.bases.size());
  EXPECT_TRUE(result->losses_beside.front().of_keys.empty());
}

// L = (|v| - |v[I]|) / |v| with I the leading lanes, mean over all keys of the other trace's prompt.
TEST_F(KindViewsTest, WhatAnotherTraceLosesIsThatOfItsOwnKeys) {
  const std::string basis = replay::testing::write_plain_basis(trace_, "a book");
  open("short.h5");
  open();
  go_to("layer=1,q_head=3,chunk=2");
  choose("aqua:dim_ratio=0.5,basis=" + basis);
  workspace_.cursor.set_option("aqua_lanes.beside", "other");
  const ExactTable table = table_of("aqua_lanes");
  int rows = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (!cell_of(table, row, "quantity").starts_with("loss_in_")) continue;
    EXPECT_THAT(cell_of(table, row, "quantity"), EndsWith("short.h5"));
    EXPECT_EQ(cell_of(table, row, "basis"), "a book");
    if (cell_of(table, row, "vectors") != "k" || cell_of(table, row, "choice") != "leading")
      continue;
    double loss = 0;
    for (int position = 0; position < 23; ++position) {
      const float* key = others_.at("short.h5").key(1, 1, position);
      double whole = 0, kept = 0;
      for (int lane = 0; lane < 8; ++lane) {
        const double square = static_cast<double>(key[lane]) * key[lane];
        whole += square;
        if (lane < number_in(table, row, "lanes")) kept += square;
      }
      loss += (std::sqrt(whole) - std::sqrt(kept)) / std::sqrt(whole) / 23;
    }
    EXPECT_NEAR(number_in(table, row, "value"), loss, 1e-5);
    ++rows;
  }
  EXPECT_GE(rows, 4);
}

TEST_F(KindViewsTest, AnotherMethodHasAStandInThatIsSaid) {
  open();
  choose("snapkv:budget_tokens=24");
  EXPECT_THAT(aqua_lanes_question(workspace_).method.text, HasSubstr("aqua:dim_ratio=0.75"));
  EXPECT_EQ(aqua_lanes_question(workspace_).stand_in,
            "snapkv drops keys, not lanes: shown is aqua with its defaults.");
  EXPECT_EQ(block_tables_question(workspace_).method.id(), "compact_attention");
  EXPECT_EQ(block_tables_question(workspace_).stand_in,
            "snapkv chooses no blocks: shown is compact_attention with its defaults.");
  EXPECT_THAT(quest_pages_question(workspace_).method.text,
              HasSubstr("quest:budget_tokens=24,budget_ratio=0,"));
  EXPECT_EQ(quest_pages_question(workspace_).stand_in,
            "snapkv does not select pages: shown is quest with the same budget.");
  EXPECT_THAT(slot_scores_question(workspace_).method.text, HasSubstr("quoka:budget_tokens=24,"));
  EXPECT_EQ(slot_scores_question(workspace_).stand_in,
            "snapkv scores keys without query slots: shown is quoka with the same budget.");
  choose("keydiff:budget_ratio=0.25");
  EXPECT_THAT(quest_pages_question(workspace_).method.text,
              HasSubstr("quest:budget_tokens=0,budget_ratio=0.25,"));
  choose("dense");
  EXPECT_THAT(quest_pages_question(workspace_).method.text, HasSubstr("quest:budget_tokens=16,"));
  EXPECT_THAT(quest_pages_question(workspace_).stand_in, HasSubstr("a budget of its own"));
}

TEST_F(KindViewsTest, AMethodOfALaterVersionHasAStandInToo) {
  open();
  workspace_.cursor.set_method(Slot::A, MethodChoice{"later:x=1", 0, std::nullopt});
  EXPECT_THAT(aqua_lanes_question(workspace_).stand_in, HasSubstr("does not know the lanes of"));
  EXPECT_THAT(quest_pages_question(workspace_).stand_in, HasSubstr("does not know the pages of"));
  EXPECT_THAT(block_tables_question(workspace_).stand_in, HasSubstr("later chooses no blocks"));
  EXPECT_THAT(slot_scores_question(workspace_).stand_in, HasSubstr("does not know the slots of"));
  EXPECT_EQ(problem_of_view("quest_pages"), "");
  EXPECT_EQ(problem_of_view("block_tables"), "");
}

// Panels make their pictures' keys from these: one file opened twice, at one place, must not share.
TEST_F(KindViewsTest, TracesPlacesAndMethodsHaveKeysOfTheirOwn) {
  std::set<std::string> keys;
  std::size_t asked = 0;
  const auto add = [&] {
    keys.insert(key_of(aqua_lanes_question(workspace_)));
    keys.insert(key_of(block_tables_question(workspace_)));
    keys.insert(key_of(quest_pages_question(workspace_)));
    keys.insert(key_of(slot_scores_question(workspace_)));
    asked += 4;
  };
  for (const char* path : {"a.h5", "b.h5"}) {
    open(path);
    choose("snapkv:budget_tokens=24");
    go_to("layer=0,q_head=0,chunk=2");
    add();
    for (const char* place : {"layer=1", "chunk=3", "q_head=2"}) {
      go_to(place);
      add();
    }
  }
  EXPECT_EQ(keys.size(), asked);
  // What the view says of the method chosen is no part of it.
  const std::string before = key_of(aqua_lanes_question(workspace_));
  choose("tova:budget_tokens=24");
  EXPECT_EQ(key_of(aqua_lanes_question(workspace_)), before);
  // A KV head has one basis and one set of curves, whichever of its query heads is shown.
  go_to("q_head=3");
  EXPECT_EQ(key_of(aqua_lanes_question(workspace_)), before);
}

TEST_F(KindViewsTest, LossesAreMeansOverTheGroupAndAxesReachTheLargest) {
  open();
  choose("aqua:dim_ratio=0.5,basis=self");
  go_to("layer=1,q_head=2,chunk=3");
  const ExactTable table = table_of("aqua_lanes");
  const auto result = workspace_.ask(aqua_lanes_question(workspace_));
  ASSERT_TRUE(result);
  // Sums over the heads of KV head 1, by vectors, choice and lanes; only the matched basis is there.
  std::map<std::string, std::pair<double, int>> sums;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string quantity = cell_of(table, i, "quantity");
    if (quantity != "information_retention_loss" && quantity != "key_loss_under_query_lanes")
      continue;
    auto& [sum, count] = sums[cell_of(table, i, "vectors") + " " + cell_of(table, i, "choice") +
                              " " + cell_of(table, i, "lanes")];
    sum += number_in(table, i, "value");
    ++count;
  }
  const auto& losses = result->losses.front();
  double most_of_keys = 0, most_of_queries = 0;
  const auto check = [&](const auto& lines, const char* vectors, double& most) {
    for (const auto& line : lines)
      for (std::size_t i = 0; i < line.loss.size(); ++i) {
        const auto& [sum, count] =
            sums.at(std::string(vectors) + " " + analysis::name_of(line.choice) + " " +
                    std::to_string(result->report.kept[i]));
        EXPECT_NEAR(line.loss[i], sum / count, 1e-12);
        most = std::max(most, sum / count);
      }
  };
  EXPECT_EQ(losses.of_keys.size(), 3U);
  EXPECT_EQ(losses.of_queries.size(), 2U);
  check(losses.of_keys, "k", most_of_keys);
  check(losses.of_queries, "q", most_of_queries);
  EXPECT_DOUBLE_EQ(result->most_lost_of_keys, std::max(most_of_keys, 1e-3));
  EXPECT_DOUBLE_EQ(result->most_lost_of_queries, std::max(most_of_queries, 1e-3));
  ASSERT_TRUE(result->key_loss);
  EXPECT_NEAR(result->key_loss->query_lanes, sums.at("k query_lanes 4").first / 2, 1e-12);
  EXPECT_TRUE(result->facts.leakage);  // the basis is that of this very trace
  EXPECT_TRUE(result->losses.back().of_keys.empty());
}

// Chunk 3 begins at token 48: block 12 of 4 tokens, of 16. KV head 1 has query heads 2 and 3.
TEST_F(KindViewsTest, TheTableOfBlocksNamesPagesAndTokens) {
  open();
  choose("flash_prefill:lowering=union,block_size=4");
  go_to("layer=1,q_head=3,chunk=3");
  const ExactTable table = table_of("block_tables");
  std::map<std::string, int> stages;
  std::set<std::string> heads, states;
  int past_read = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string stage = cell_of(table, i, "stage"), state = cell_of(table, i, "state");
    const int block = std::stoi(cell_of(table, i, "key_block"));
    ++stages[stage];
    heads.insert(cell_of(table, i, "q_head"));
    states.insert(state);
    EXPECT_EQ(cell_of(table, i, "token_begin"), std::to_string(block * 4));
    EXPECT_EQ(cell_of(table, i, "token_end"), std::to_string(block * 4 + 4));
    EXPECT_EQ(cell_of(table, i, "page_id"), std::to_string(16 + block));
    if (stage != "table") continue;
    EXPECT_EQ(state == "of the chunk", block >= 12) << block;
    if (block < 12 && state != "not kept") ++past_read;
  }
  EXPECT_EQ(heads, (std::set<std::string>{"", "2", "3"}));
  // Query blocks at 12 to 15 see the blocks up to their own.
  EXPECT_EQ(stages["mask"], 2 * (13 + 14 + 15 + 16));
  EXPECT_EQ(stages["query_union"], 2 * 16);
  EXPECT_EQ(stages["group_union"], 16);
  EXPECT_EQ(stages["table"], 16);
  const auto result = workspace_.ask(block_tables_question(workspace_));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->kv_head, 1);
  EXPECT_EQ(result->past_blocks_read, past_read);
  EXPECT_EQ(result->present[static_cast<std::size_t>(replay::BlockState::Kept)],
            states.contains("kept by score"));
  EXPECT_EQ(result->present[static_cast<std::size_t>(replay::BlockState::Dropped)],
            states.contains("not kept"));
  const Array array = find_view("block_tables")->array(workspace_);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 4, 16}));
  EXPECT_EQ(array.bytes.size(), 2U * 4 * 16);
}

// What is said of each block before the chunk, beside the table's rows of it.
TEST_F(KindViewsTest, TheFindingSaysWhoAsksForTheWatchedBlock) {
  open();
  choose("flash_prefill:lowering=union,block_size=4,alpha=0.9,sink_blocks=1,window_blocks=1");
  go_to("layer=1,q_head=3,chunk=3");
  const ExactTable table = table_of("block_tables");
  std::set<std::string> endings;
  for (int block = 0; block < 12; ++block) {
    std::set<std::string> heads;
    bool read = false, by_rule = false;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (cell_of(table, i, "key_block") != std::to_string(block)) continue;
      const std::string stage = cell_of(table, i, "stage"), state = cell_of(table, i, "state");
      if (stage == "table") read = state != "not kept";
      if (stage != "mask") continue;
      if (state == "kept by score") heads.insert(cell_of(table, i, "q_head"));
      by_rule |= state == "kept by rule";
    }
    const std::string who = heads.size() == 2 ? "all 2 query heads ask for it"
                            : heads.size() == 1
                                ? "only query head " + *heads.begin() + " asks for it"
                            : by_rule ? "by rule"
                                      : "no query head asks for it";
    workspace_.cursor.set_keys(block * 4, block * 4 + 4);
    const auto result = workspace_.ask(block_tables_question(workspace_));
    ASSERT_TRUE(result);
    const std::string finding = block_tables_finding(*result, workspace_.place());
    EXPECT_THAT(finding, HasSubstr(read ? " is read: " : " is not read: ")) << block;
    EXPECT_THAT(finding, EndsWith(who + ".")) << block;
    endings.insert(who);
  }
  EXPECT_GE(endings.size(), 3U);
}

// Native masks are shown with the unions that they spare, of all heads of the KV head; no table is
// read. A stage carries what attention that reads it is worth.
TEST_F(KindViewsTest, NativeMasksStandBesideTheirUnions) {
  open();
  choose("flash_prefill:block_size=4,alpha=0.95,sink_blocks=0,window_blocks=1,lowering=native");
  go_to("layer=1,q_head=3,chunk=3");
  const ExactTable table = table_of("block_tables");
  std::map<std::string, int> stages;
  std::map<std::string, double> recall, density;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string stage = cell_of(table, i, "stage");
    ++stages[stage];
    recall[stage] = number_in(table, i, "mass_recall");
    density[stage] = number_in(table, i, "density_past");
    EXPECT_GE(number_in(table, i, "output_error"), 0.0);
    EXPECT_GT(number_in(table, i, "attend_ms"), 0.0);
  }
  EXPECT_EQ(stages["mask"], 2 * (13 + 14 + 15 + 16));
  EXPECT_EQ(stages["query_union"], 2 * 16);
  EXPECT_EQ(stages["group_union"], 16);
  EXPECT_FALSE(stages.contains("table"));
  EXPECT_LT(recall["mask"], recall["query_union"]);
  EXPECT_LE(recall["query_union"], recall["group_union"]);
  const auto result = workspace_.ask(block_tables_question(workspace_));
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->reads_masks);
  EXPECT_EQ(result->report.q_heads, (std::vector<int>{2, 3}));
  const auto worths =
      workspace_.ask(BlockMetricsQuestion{result.question.place, result.question.method});
  ASSERT_TRUE(worths);
  EXPECT_NEAR((*worths)[0].density, density["mask"], 1e-6);
  EXPECT_NEAR((*worths)[2].density, density["group_union"], 1e-6);
}

TEST_F(KindViewsTest, BlocksSayWhyThereIsNothing) {
  open();
  choose("flash_prefill:lowering=union,block_size=4");
  go_to("chunk=0");
  EXPECT_THAT(problem_of_view("block_tables"), HasSubstr("The first chunk has no past"));
  EXPECT_TRUE(find_view("block_tables")->table(workspace_).rows.empty());
  EXPECT_TRUE(find_view("block_tables")->array(workspace_).shape.empty());
  go_to("chunk=6");
  EXPECT_THAT(problem_of_view("block_tables"), HasSubstr("decodes densely"));
  go_to("layer=1,chunk=2");
  choose("xattention:block_size=4,stride=4,skip_layers=2");
  EXPECT_THAT(problem_of_view("block_tables"), HasSubstr("Layer 1 is dense by the method's rule"));
  choose("flash_prefill:lowering=union,block_size=4");
  go_to("chunk=2");
  EXPECT_EQ(problem_of_view("block_tables"), "");
}

TEST_F(KindViewsTest, RangesAndCutsOfPagesAreThoseOfTheTable) {
  open();
  choose("quest:budget_tokens=16,page_size=4,skip_layers=0");
  go_to("layer=1,q_head=1,chunk=4");
  const ExactTable table = table_of("quest_pages");
  const auto result = workspace_.ask(quest_pages_question(workspace_));
  ASSERT_TRUE(result);
  double low = kInfinity, high = -kInfinity, taken_low = kInfinity, left_high = -kInfinity,
         wanted_low = kInfinity;
  int pages = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (cell_of(table, i, "kind") == "step") continue;
    ++pages;
    const double bound = number_in(table, i, "bound"), best = number_in(table, i, "best_logit");
    const std::string verdict = cell_of(table, i, "verdict");
    low = std::min(low, bound);
    high = std::max(high, bound);
    EXPECT_GE(bound, best - 1e-5);
    if (verdict == "forced") continue;
    if (cell_of(table, i, "taken") == "1")
      taken_low = std::min(taken_low, bound);
    else
      left_high = std::max(left_high, bound);
    if (verdict == "hit" || verdict == "miss") wanted_low = std::min(wanted_low, best);
  }
  EXPECT_EQ(pages, 16);  // 64 past keys
  EXPECT_DOUBLE_EQ(result->bounds.low, low);
  EXPECT_DOUBLE_EQ(result->bounds.high, high);
  ASSERT_TRUE(result->bound_cut && result->best_cut);  // of one query head: nothing was merged
  EXPECT_LE(left_high, taken_low);
  EXPECT_DOUBLE_EQ(*result->bound_cut, taken_low);
  EXPECT_DOUBLE_EQ(*result->best_cut, wanted_low);
  ASSERT_NE(result->step_here(), nullptr);
  EXPECT_EQ(result->step_here()->chunk, 4);
}

TEST_F(KindViewsTest, EveryPageIsDrawnOnceTheMissesLast) {
  open();
  choose("quest:budget_tokens=16,page_size=4,skip_layers=0");
  go_to("layer=1,q_head=0,chunk=4");
  table_of("quest_pages");
  const auto result = workspace_.ask(quest_pages_question(workspace_));
  ASSERT_TRUE(result);
  std::set<std::int32_t> drawn;
  bool missed = false;
  for (const std::int32_t page : result->drawing_order) {
    drawn.insert(page);
    const bool miss =
        result->report.pages[static_cast<std::size_t>(page)].verdict == analysis::PageVerdict::Miss;
    EXPECT_TRUE(miss || !missed) << page;
    missed |= miss;
  }
  EXPECT_EQ(drawn.size(), result->report.pages.size());
  EXPECT_EQ(result->drawing_order.size(), result->report.pages.size());
}

TEST_F(KindViewsTest, StepsAreThoseOfTheChunksPhase) {
  open();
  choose("quest:budget_tokens=16,page_size=4,skip_layers=0");
  go_to("chunk=0");
  EXPECT_EQ(problem_of_view("quest_pages"), "there are no keys before this chunk");
  go_to("chunk=6");  // the second decode step
  const ExactTable table = table_of("quest_pages");
  std::vector<std::string> chunks;
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (cell_of(table, i, "kind") == "step") chunks.push_back(cell_of(table, i, "chunk"));
  EXPECT_THAT(chunks, ElementsAre("5", "6", "7"));
  const auto result = workspace_.ask(quest_pages_question(workspace_));
  ASSERT_TRUE(result && result->here);
  EXPECT_EQ(*result->here, 1U);
}

}  // namespace
}  // namespace kvloupe::state
