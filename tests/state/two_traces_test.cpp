// The same place of another trace: found by its tokens, and what the views show and export of both.
#include "app/state/other_trace.h"
#include "app/state/questions/kept/method_diff.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/shown_methods.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace kvloupe {
namespace {

using state::AlignedTraces;
using state::Show;
using state::Side;
using state::Slot;

constexpr std::int32_t kAt = 300, kMore = 40;  // where B says more, and by how many tokens

class TwoTraces : public test::WorkspaceTest {
 protected:
  static test::GuiTraceOptions of_text() {
    test::GuiTraceOptions options = whole_options();
    options.text_seed = 7;
    options.runs = {"quoka:budget_tokens=128", "streaming_llm:budget_tokens=128"};
    return options;
  }
  static const std::string& first() {
    static const std::string path = test::write_gui_trace("text_a.h5", of_text());
    return path;
  }
  // The same text with a sentence more, and other numbers.
  static const std::string& second() {
    static const std::string path = [] {
      test::GuiTraceOptions options = of_text();
      options.num_tokens += kMore;
      options.needle_begin += kMore;
      options.inserted_at = kAt;
      options.inserted = kMore;
      options.seed = 3;
      return test::write_gui_trace("text_b.h5", options);
    }();
    return path;
  }
  // Both, the first in front.
  void open_both() {
    open(second());
    open(first());
    workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=7"));
    workspace.cursor.set_run(Slot::A, 0);
    workspace.cursor.set_run(Slot::B, 1);
  }
  state::OtherPlace other(state::Alike alike = state::Alike::Heads) {
    for (int frame = 0; frame < 16; ++frame) {
      workspace.begin_frame();
      state::OtherPlace found = state::other_place(workspace, workspace.method(), alike);
      if (!found.coming) return found;
      test::settle(workspace);
    }
    return {};
  }
  void show_traces(const std::string& view) {
    workspace.cursor.set_option(view + "." + state::kShow, "traces");
  }
  test::ExactTable table_of(const std::string& id) {
    const state::ViewInfo& view = *state::find_view(id);
    EXPECT_EQ(test::problem_of_view(workspace, view), "") << id;
    return test::exact(view.table(workspace));
  }
  std::string problem(const std::string& id) {
    return test::problem_of_view(workspace, *state::find_view(id));
  }
};

TEST_F(TwoTraces, AnAnswerOfTheOneIsNoStaleAnswerOfTheOther) {
  open_both();
  state::LastAnswer<state::OverviewDifferenceQuestion> last;
  const auto asked = [&] {
    return last.ask(workspace, state::overview_difference_question(workspace));
  };
  const auto answered = [&] {
    for (int frame = 0; frame < 16; ++frame) {
      workspace.begin_frame();
      const auto result = asked();
      if (result.state != state::ResultState::Loading) return result;
      test::settle(workspace);
    }
    return asked();
  };
  ASSERT_TRUE(answered());
  {
    const test::HeldLane held(workspace);
    workspace.cursor.set_chunk(6);
    workspace.begin_frame();
    workspace.traces.open(second());
    workspace.begin_frame();
    ASSERT_EQ(workspace.place().trace->path, second());
    const auto result = asked();
    EXPECT_EQ(result.state, state::ResultState::Loading);
    EXPECT_FALSE(result) << "of the first trace";
  }
  EXPECT_TRUE(answered());
}

// A: 0 1 2 3 | 4 5 6 7, B: 0 1 x y | 2 3 4 5 | 7: two of B's own, one of A's.
TEST(AlignedTraces, LeadPositionsAndChunksByTheTokens) {
  const std::vector<trace::ChunkInfo> of_a{{0, 4, {}}, {4, 4, {}}};
  const std::vector<trace::ChunkInfo> of_b{{0, 4, {}}, {4, 4, {}}, {8, 1, {}}};
  const AlignedTraces aligned(replay::paired_keys({10, 11, 12, 13, 14, 15, 16, 17},
                                                  {10, 11, 98, 99, 12, 13, 14, 15, 17}, {}),
                              of_a, of_b);
  EXPECT_FALSE(aligned.same_prompt());
  EXPECT_EQ(aligned.keys().count, 7);
  EXPECT_EQ(aligned.chunk_in_b(0), 0);
  EXPECT_EQ(aligned.chunk_in_b(1), 1);
  EXPECT_EQ(aligned.chunk_in_a(2), 1);
  // All of the one is all of the other.
  EXPECT_EQ(aligned.in_b(0, Side::Begin), 0);
  EXPECT_EQ(aligned.in_b(8, Side::End), 9);
  EXPECT_EQ(aligned.in_a(9, Side::End), 8);
  // What ends before the words that B has more ends before them there, what begins behind begins behind.
  EXPECT_EQ(aligned.in_b(2, Side::End), 2);
  EXPECT_EQ(aligned.in_b(2, Side::Begin), 4);
  EXPECT_EQ(aligned.in_b(2.5, Side::Begin), 4.5);
  // Those words lie at one place in A.
  EXPECT_EQ(aligned.in_a(3, Side::Begin), 2);
  EXPECT_EQ(aligned.in_a(3, Side::End), 2);
  // And A's own token at one of B.
  EXPECT_EQ(aligned.in_b(6, Side::End), 8);
  EXPECT_EQ(aligned.in_b(6.5, Side::Begin), 8);
  EXPECT_EQ(aligned.in_b(7, Side::Begin), 8);
}

TEST(AlignedTraces, OfOnePromptMoveNothing) {
  const std::vector<trace::ChunkInfo> chunks{{0, 3, {}}, {3, 2, {}}};
  const AlignedTraces aligned(replay::paired_keys({1, 1, 2, 3, 3}, {1, 1, 2, 3, 3}, {}), chunks,
                              chunks);
  EXPECT_TRUE(aligned.same_prompt());
  for (const double at : {0.0, 0.25, 1.0, 2.9, 5.0})
    for (const Side side : {Side::Begin, Side::End}) {
      EXPECT_EQ(aligned.in_b(at, side), at);
      EXPECT_EQ(aligned.in_a(at, side), at);
    }
}

TEST_F(TwoTraces, ThePlaceThereIsThatOfTheSameTokens) {
  open_both();
  workspace.cursor.go_to(state::parse_goto("chunk=5,query=700,queries=699-700,key=296-309"));
  const state::OtherPlace there = other();
  ASSERT_TRUE(bool(there)) << there.why;
  EXPECT_EQ(there.place.trace->path, second());
  EXPECT_EQ(there.place.layer, 1);
  EXPECT_EQ(there.place.q_head, 4);
  // Tokens 640 to 767 are 680 to 807 there: most of them are of chunk 5, which ends at 767.
  EXPECT_EQ(there.place.chunk, 5);
  EXPECT_EQ(there.place.query, 740);
  EXPECT_EQ(there.place.queries.text(), "739-740");
  EXPECT_EQ(there.place.keys.text(), "296-299+340-349") << "not what stands there between them";
  EXPECT_THAT(there.note, HasSubstr("share 1,000 tokens, of 1,000 here and 1,040 there"));
  EXPECT_EQ(there.method.text, workspace.method().text);
  EXPECT_TRUE(there.method.recorded());
  // The other way round, keys that this prompt alone has are none there.
  workspace.traces.open(second());
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=5,key=305-330"));
  const state::OtherPlace back = other();
  ASSERT_TRUE(bool(back)) << back.why;
  EXPECT_EQ(back.place.trace->path, first());
  EXPECT_FALSE(back.place.has_keys());
  EXPECT_TRUE(back.place.watches_nothing);
}

TEST_F(TwoTraces, WhyThereIsNoneIsASentence) {
  open(first());
  EXPECT_THAT(other().why, HasSubstr("Open a second trace"));
  show_traces("kv_map");
  EXPECT_THAT(problem("kv_map"), HasSubstr("Open a second trace"));
  workspace.cursor.set_other_trace("/nowhere/gone.h5");
  EXPECT_EQ(other().why, "gone.h5 is not open: open it, or choose another trace.");
  // Other layers and heads: no head is the same. An overview is drawn of any model.
  test::GuiTraceOptions options = of_text();
  options.num_q_heads = 6;
  options.runs.clear();
  open(test::write_gui_trace("six_heads.h5", options));
  workspace.traces.open(first());
  workspace.cursor.set_other_trace("");
  EXPECT_THAT(other().why,
              HasSubstr("3 layers, 6 query heads and 3 KV heads, this trace 3 layers, 9"));
  EXPECT_EQ(other(state::Alike::Nothing).why, "");
  show_traces("layer_head_overview");
  EXPECT_EQ(problem("layer_head_overview"), "");
  workspace.traces.open("six_heads.h5");
  workspace.traces.close_active();
  // Layers that were not captured, and chunks of another size.
  options = of_text();
  options.layers = {0, 2};
  options.chunk_size = 200;
  open(test::write_gui_trace("two_layers.h5", options));
  workspace.traces.open(first());
  workspace.cursor.set_layer(1);
  EXPECT_THAT(other().why, HasSubstr("does not hold layer 1"));
  workspace.cursor.set_layer(2);
  EXPECT_THAT(other().note, HasSubstr("Chunks are of 128 tokens here and of 200 there"));
  // A run that cannot be selected anew.
  open();
  workspace.cursor.set_run(Slot::A, 3);
  ASSERT_FALSE(workspace.method().known());
  workspace.cursor.set_other_trace(first());
  EXPECT_THAT(other().why, HasSubstr("has no run of future_method"));
}

// Each half is what the view shows of that trace alone.
TEST_F(TwoTraces, TablesAreThoseOfEachTraceAtItsPlace) {
  for (const std::string view : {"kv_map", "token_strip", "attention_map", "layer_head_overview"}) {
    open_both();
    std::vector<std::vector<std::string>> alone;
    for (const std::string& path : {first(), second()}) {
      workspace.traces.open(path);
      workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=7"));
      workspace.cursor.set_run(Slot::A, 0);
      for (auto row : table_of(view).rows) {
        row.insert(row.begin(), std::filesystem::path(path).filename().string());
        alone.push_back(std::move(row));
      }
    }
    workspace.traces.open(first());
    show_traces(view);
    const test::ExactTable both = table_of(view);
    EXPECT_EQ(both.columns.front(), "trace") << view;
    EXPECT_TRUE(both.rows == alone) << view;
    while (workspace.traces.active() != nullptr) workspace.traces.close_active();
  }
}

TEST_F(TwoTraces, AFlipShowsTheOtherMethodInBoth) {
  open_both();
  show_traces("kv_map");
  workspace.cursor.show(Slot::B);
  const auto drawn = [&] {
    test::problem_of_view(workspace, *state::find_view("kv_map"));
    return state::all_drawn(workspace, "kv_map").pictures;
  }();
  ASSERT_EQ(drawn.size(), 2U);
  for (const state::Drawn& one : drawn) EXPECT_EQ(one.method.id(), "streaming_llm");
  EXPECT_NE(drawn[0].place.trace, drawn[1].place.trace);
}

// Of three traces the one chosen; what is closed is drawn no longer.
TEST_F(TwoTraces, WhichOfSeveralIsAChoiceThatAClosingEnds) {
  open(second());
  open();
  open(first());
  EXPECT_EQ(state::other_trace(workspace)->path, second());
  workspace.cursor.set_other_trace(whole_trace());
  EXPECT_EQ(state::other_trace(workspace)->path, whole_trace());
  workspace.cursor.back();
  EXPECT_EQ(state::other_trace(workspace)->path, second());
  workspace.cursor.forward();
  workspace.traces.open(whole_trace());
  workspace.traces.close_active();
  workspace.traces.open(first());
  EXPECT_EQ(workspace.selection().other_trace, "");
  EXPECT_EQ(state::other_trace(workspace)->path, second());
}

TEST_F(TwoTraces, TheWordsOfAFigureLeadBackToBoth) {
  open_both();
  const state::ViewInfo& view = *state::find_view("kv_map");
  EXPECT_EQ(state::describe(workspace, view).other_trace, "");
  show_traces("kv_map");
  const state::ViewState what = state::describe(workspace, view);
  EXPECT_EQ(what.other_trace, second());
  EXPECT_EQ(what.options.at("kv_map.show"), "traces");
  EXPECT_EQ(what.methods.size(), 1U);
  EXPECT_NO_THROW(state::check(what));
  EXPECT_TRUE(state::parse_link(state::link_text(what)).other_trace == second());
  // A workspace that knows nothing of it opens both, the first in front.
  state::Workspace fresh;
  fresh.traces.open(first(), what);
  for (int turn = 0; turn < 4; ++turn) {
    test::settle(fresh);
    fresh.begin_frame();
  }
  ASSERT_EQ(fresh.traces.tabs().size(), 2U);
  EXPECT_EQ(fresh.place().trace->path, first());
  EXPECT_TRUE(state::describe(fresh, view) == what);
  EXPECT_EQ(test::problem_of_view(fresh, view), "");
  EXPECT_TRUE(test::exact(view.table(fresh)).rows == table_of("kv_map").rows);
  // What names no other trace has none to draw.
  state::ViewState without = what;
  without.other_trace.clear();
  EXPECT_THROW(state::check(without), Error);
}

// Counted by hand from the recorded sets: a key of A from 300 on is one 40 later in B.
TEST_F(TwoTraces, TheDifferenceOfTwoTracesIsCountedByTheTokens) {
  open_both();
  workspace.cursor.set_option("method_diff.beside", "other");
  const test::ExactTable table = table_of("method_diff");
  EXPECT_THAT(table.columns, ElementsAre("layer", "chunk", "chunk_b", "kv_head", "jaccard", "both",
                                         "only_a", "only_b", "mass_a", "mass_b"));
  const auto run_of = [&](const std::string& path, int layer) {
    workspace.traces.open(path);
    state::Place at = place();
    at.layer = layer;
    return answer_to(state::RunQuestion{at, workspace.traces.ready()->recorded[0]});
  };
  using Key = std::tuple<int, int, int, int>;
  std::map<Key, std::tuple<int, int, int>> counted, expected;
  for (const auto& row : table.rows)
    counted[{std::stoi(row[0]), std::stoi(row[1]), std::stoi(row[2]), std::stoi(row[3])}] = {
        std::stoi(row[5]), std::stoi(row[6]), std::stoi(row[7])};
  for (int layer = 0; layer < 3; ++layer) {
    const auto a = run_of(first(), layer), b = run_of(second(), layer);
    for (int chunk = 0; chunk < 8; ++chunk) {
      const replay::ReplayCell& of_a = *a->find(layer, chunk);
      const replay::ReplayCell& of_b = *b->find(layer, chunk);  // most of its tokens are there
      for (int row = 0; row < 3; ++row) {
        std::set<int> kept_a, kept_b;
        const auto moved = [](int key) { return key < kAt ? key : key + kMore; };
        for (const int key : of_a.rows[static_cast<std::size_t>(row)].positions)
          if (moved(key) < of_b.span.begin) kept_a.insert(moved(key));
        for (const int key : of_b.rows[static_cast<std::size_t>(row)].positions)
          if (key < kAt || key >= kAt + kMore)
            if ((key < kAt ? key : key - kMore) < of_a.span.begin) kept_b.insert(key);
        int both = 0;
        for (const int key : kept_a) both += static_cast<int>(kept_b.count(key));
        expected[{layer, chunk, chunk, row}] = {both, static_cast<int>(kept_a.size()) - both,
                                                static_cast<int>(kept_b.size()) - both};
      }
    }
  }
  EXPECT_TRUE(counted == expected);
  EXPECT_GT(std::get<0>(counted.at({1, 7, 7, 1})), 0);
  EXPECT_GT(std::get<1>(counted.at({1, 7, 7, 1})), 0);
}

TEST_F(TwoTraces, WhatWasSelectedByBothIsThatOfEach) {
  open(first());
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=7"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  std::map<std::string, std::vector<std::string>> fates;  // by position
  for (const Slot slot : state::kSlots) {
    workspace.cursor.show(slot);
    for (const auto& row : table_of("selected_vs_true").rows) fates[row[1]].push_back(row[6]);
  }
  workspace.cursor.set_option("selected_vs_true.show", "both");
  const test::ExactTable both = table_of("selected_vs_true");
  EXPECT_EQ(both.rows.size(), fates.size());
  std::set<std::string> pairs;
  for (const auto& row : both.rows) {
    EXPECT_EQ(fates.at(row[1]), (std::vector{row[6], row[8]})) << row[1];
    EXPECT_EQ(row[5], row[6] == "hit" || row[6] == "waste" ? "1" : "0");
    pairs.insert(row[6] + " " + row[8]);
  }
  EXPECT_TRUE(pairs.contains("hit miss") || pairs.contains("miss hit"));
  // Above the table stands who keeps what is watched, over nearly equal recalls too.
  workspace.cursor.set_keys(3, 40);
  const auto answer = workspace.ask(state::selected_by_both_question(workspace));
  ASSERT_TRUE(answer.answer) << answer.error;
  std::array<int, 2> kept{};
  int kept_by_both = 0;
  for (const auto& row : both.rows) {
    const int key = std::stoi(row[1]);
    const auto is_kept = [&](std::size_t i) {
      return row[6 + 2 * i] == "hit" || row[6 + 2 * i] == "waste";
    };
    kept_by_both += is_kept(0) && is_kept(1);
    for (const std::size_t i : {0, 1}) kept[i] += key >= 3 && key < 40 && is_kept(i);
  }
  ASSERT_NE(kept[0], kept[1]);
  const auto count = [](int n) { return n == 0 ? "none" : std::to_string(n); };
  const double a = answer->of_a->cell.mass_recall, b = answer->of_b->cell.mass_recall;
  EXPECT_EQ(state::verdict_of_both(*answer, workspace.place()),
            fmt::format("Of the 37 keys from 3 to 39 A keeps {}, B {}, {}. In common: {} keys.",
                        count(kept[0]), count(kept[1]),
                        std::abs(a - b) < 0.02
                            ? fmt::format("at nearly the same recall ({:.3f} and {:.3f})", a, b)
                            : fmt::format("at recalls of {:.3f} and {:.3f}", a, b),
                        kept_by_both));
  workspace.cursor.set_keys(3, 4);
  EXPECT_THAT(state::verdict_of_both(*answer, workspace.place()),
              ::testing::MatchesRegex("A (keeps|loses) key 3, B (keeps|loses) it, at .*"));
  // The filter takes what either missed.
  workspace.cursor.set_option("selected_vs_true.filter", "misses");
  const test::ExactTable missed = table_of("selected_vs_true");
  ASSERT_FALSE(missed.rows.empty());
  for (const auto& row : missed.rows) EXPECT_TRUE(row[6] == "miss" || row[8] == "miss");
  const auto missed_by_either = [](const auto& row) {
    return row[6] == "miss" || row[8] == "miss";
  };
  EXPECT_EQ(std::ranges::count_if(both.rows, missed_by_either), std::ssize(missed.rows));
  // Or what one alone kept; of one method that is no filter.
  workspace.cursor.set_option("selected_vs_true.filter", "kept_by_one");
  const test::ExactTable apart = table_of("selected_vs_true");
  for (const auto& row : apart.rows) EXPECT_NE(row[5], row[7]);
  EXPECT_EQ(std::ranges::count_if(both.rows, [](const auto& row) { return row[5] != row[7]; }),
            std::ssize(apart.rows));
  workspace.cursor.set_option("selected_vs_true.show", "one");
  EXPECT_EQ(table_of("selected_vs_true").rows.size(), both.rows.size());
}

TEST_F(TwoTraces, TheInspectorShowsBothUnlessItIsAskedForOne) {
  open(first());
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=7,key=30"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_run(Slot::B, 1);
  EXPECT_EQ(state::show_of(workspace, "miss_inspector"), Show::Both);
  const test::ExactTable both = table_of("miss_inspector");
  workspace.cursor.set_option("miss_inspector.show", "one");
  workspace.cursor.show(Slot::B);
  EXPECT_THAT(state::inspected_slots(workspace), ElementsAre(Slot::B));
  const test::ExactTable one = table_of("miss_inspector");
  EXPECT_EQ(both.rows.size(), 2 * one.rows.size());
  EXPECT_EQ(state::describe(workspace, *state::find_view("miss_inspector")).methods.size(), 1U);
}

TEST_F(TwoTraces, TheGeometryOfBothIsOneTableAMethod) {
  open(first());
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=7"));
  workspace.cursor.set_run(Slot::A, 0);
  workspace.cursor.set_method(Slot::B, "quoka:budget_tokens=64,num_queries=4");
  const test::ExactTable one = table_of("query_geometry");
  workspace.cursor.set_option("query_geometry.show", "both");
  const test::ExactTable both = table_of("query_geometry");
  EXPECT_EQ(both.columns.front(), "method");
  EXPECT_EQ(both.rows.size(), 2 * one.rows.size());
}

}  // namespace
}  // namespace kvloupe
