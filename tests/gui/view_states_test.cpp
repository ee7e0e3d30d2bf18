// Every view of the list draws without a display in the empty, loading, error and full state, and
// with a run of a method that this version does not know; and gives as data what it draws.
#include "app/state/shown_methods.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/view_fixture.h"

#include <set>
#include <string>

namespace kvloupe {
namespace {

using state::Slot;
using state::ViewInfo;
using state::views;

class ViewStates : public test::ViewTest {};

// What is listed of a file does not fail, attention alone is drawn with holes where it is not known,
// and block tables show the recorded run of blocks.
bool can_fail(const ViewInfo& view) {
  static const std::set<std::string> never = {"attention_map", "block_tables", "received_rankings",
                                              "decode_drift", "trace_info"};
  return never.count(view.id) == 0 && !view.shows_results;
}

TEST_F(ViewStates, EmptyWithoutATrace) {
  in_both_themes([&] {
    for (const ViewInfo& view : views()) {
      const auto panel = panels::make_panel(view.id);
      EXPECT_GT(draw(*panel, true), 4U) << view.id << " says nothing";
      EXPECT_FALSE(view.problem(workspace).empty()) << view.id;
      if (view.table != nullptr) {
        EXPECT_TRUE(view.table(workspace).rows.empty()) << view.id;
      }
      if (view.array != nullptr) {
        EXPECT_TRUE(view.array(workspace).bytes.empty()) << view.id;
      }
    }
  });
}

TEST_F(ViewStates, LoadingWhileTheTraceIsOpened) {
  test::HeldLane held(workspace, {Lane::TraceIo});
  workspace.traces.open(trace_file());
  for (const ViewInfo& view : views()) {
    const auto panel = panels::make_panel(view.id);
    EXPECT_GT(draw(*panel, false), 4U) << view.id << " says nothing";
  }
}

TEST_F(ViewStates, LoadingWhileAnswersAreComputed) {
  open();
  in_both_themes([&] {
    for (const ViewInfo& view : views()) {
      // Nothing of this place is known yet.
      workspace.traces.reload_active();
      test::open_results(workspace);
      test::settle(workspace);
      const auto panel = panels::make_panel(view.id);
      test::HeldLane held(workspace), held_reading(workspace, {Lane::TraceIo});
      EXPECT_GT(draw(*panel, false), 4U) << view.id;
      EXPECT_FALSE(view.problem(workspace).empty()) << view.id;
      EXPECT_GT(draw(*panel, false, false), 4U) << view.id;
      // And on to whatever comes.
      held.release();
      held_reading.release();
      EXPECT_GT(draw(*panel, true), 4U) << view.id;
    }
  });
}

TEST_F(ViewStates, ErrorsAreShownNotThrown) {
  open(broken_trace_file());
  for (const Slot slot : state::kSlots)
    workspace.cursor.set_method(slot, "infinipot:budget_tokens=64");  // it needs a probe
  in_both_themes([&] {
    for (const ViewInfo& view : views()) {
      const std::string problem = test::problem_of_view(workspace, view);
      EXPECT_EQ(problem.empty(), !can_fail(view)) << view.id << ": " << problem;
      EXPECT_EQ(problem.find("not computed yet"), std::string::npos) << view.id << " never ends";
      const auto panel = panels::make_panel(view.id);
      EXPECT_GT(draw(*panel, true), 4U) << view.id;
      EXPECT_GT(draw(*panel, true, false), 4U) << view.id;
    }
  });
}

TEST_F(ViewStates, FullWithAnAnswer) {
  open();
  in_both_themes([&] {
    for (const ViewInfo& view : views()) {
      EXPECT_EQ(fill(view), "") << view.id;
      const auto panel = panels::make_panel(view.id);
      EXPECT_GT(draw(*panel, true), 40U) << view.id;
      EXPECT_GT(draw(*panel, true, false), 40U) << view.id;
    }
  });
}

TEST_F(ViewStates, TablesAndArraysHaveTheShapeThatTheyName) {
  open();
  for (const ViewInfo& view : views()) {
    ASSERT_EQ(fill(view), "") << view.id;
    if (view.table != nullptr) {
      const state::Table table = view.table(workspace);
      EXPECT_FALSE(table.rows.empty()) << view.id;
      for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size()) << view.id;
    }
    if (view.array != nullptr) {
      const state::Array array = view.array(workspace);
      std::int64_t bytes = array.dtype.back() - '0';  // "<f4", "|u1"
      for (const std::int64_t extent : array.shape) bytes *= extent;
      EXPECT_EQ(static_cast<std::int64_t>(array.bytes.size()), bytes) << view.id;
      EXPECT_GT(bytes, 0) << view.id;
    }
  }
}

TEST_F(ViewStates, ARunOfAnUnknownMethodIsDrawn) {
  open();
  for (const Slot slot : state::kSlots) workspace.cursor.set_run(slot, 3);
  ASSERT_FALSE(workspace.method().known());
  in_both_themes([&] {
    for (const ViewInfo& view : views()) {
      const std::string problem = test::problem_of_view(workspace, view);
      const auto panel = panels::make_panel(view.id);
      EXPECT_GT(draw(*panel, true), problem.empty() ? 40U : 4U) << view.id << ": " << problem;
      EXPECT_GT(draw(*panel, true, false), 4U) << view.id;
    }
  });
  // What was recorded of it is there.
  for (const char* id : {"kv_map", "selected_vs_true", "miss_inspector", "token_strip"})
    EXPECT_EQ(test::problem_of_view(workspace, *state::find_view(id)), "") << id;
}

// A, B, both, their difference, up to six, of methods of every kind; one panel through all of them.
TEST_F(ViewStates, EveryFormOfTwoMethodsIsDrawn) {
  open();
  constexpr const char* kOfB[] = {"aqua:basis=self", "snapkv:budget_tokens=48", "dense",
                                  "run:3"};  // of a method that nobody knows
  for (const ViewInfo& view : views()) {
    const auto panel = panels::make_panel(view.id);
    for (const state::ViewOption& option : view.options) {
      if (option.name != state::kShow) continue;
      for (const char* of_b : kOfB) {
        workspace.cursor.set_run(Slot::A, 0);
        workspace.cursor.set_method(Slot::B, state::choice_of_text(of_b, *workspace.place().trace));
        workspace.cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=4,key=30-39"));
        for (const std::string& how : option.choices) {
          workspace.cursor.set_option(view.id + "." + state::kShow, how);
          EXPECT_GT(draw(*panel, false, false), 1U) << view.id << " " << how << " " << of_b;
          const std::string problem = test::problem_of_view(workspace, view);
          EXPECT_GT(draw(*panel, true), problem.empty() ? 30U : 4U)
              << view.id << " " << how << " " << of_b << ": " << problem;
          EXPECT_GT(draw(*panel, true, false), 4U) << view.id << " " << how << " " << of_b;
        }
      }
    }
  }
}

// One panel through places and kinds of methods, so that what it keeps between frames meets an
// answer of another shape: the first chunk, a decode step, methods with rows by query head, with
// lanes, pages and blocks, and another trace.
TEST_F(ViewStates, FollowEveryPlaceAndKindOfMethod) {
  open();
  constexpr const char* kMethods[] = {
      "aqua:basis=self", "snapkv:budget_tokens=48", "quest:budget_tokens=64,page_size=16",
      "flash_prefill",   "h2o:budget_tokens=64",    "dense"};
  constexpr const char* kPlaces[] = {"layer=0,q_head=0,chunk=0",
                                     "layer=3,q_head=8,chunk=6,query=641",
                                     "layer=2,q_head=4,chunk=3,query=400,key=630-639,window=16"};
  for (const ViewInfo& view : views()) {
    const auto panel = panels::make_panel(view.id);
    int at = 0;
    for (const char* method : kMethods) {
      workspace.cursor.set_method(Slot::A, method);
      workspace.cursor.go_to(state::parse_goto(kPlaces[at++ % 3]));
      EXPECT_GT(draw(*panel, true, at % 2 == 0), 4U) << view.id << " " << method;
    }
    workspace.traces.open(broken_trace_file());
    EXPECT_GT(draw(*panel, true, false), 4U) << view.id;
    workspace.traces.close_active();
    EXPECT_GT(draw(*panel, true, false), 4U) << view.id;
  }
}

}  // namespace
}  // namespace kvloupe
