// A copy of the workspace for another thread: it shows the same, and computes nothing of what stands on
// screen again.
#include "app/state/sight.h"
#include "app/state/view_list.h"
#include "tests/state/workspace_fixture.h"

#include <thread>

namespace kvloupe::state {
namespace {

class WorkspaceApart : public test::WorkspaceTest {
 protected:
  // Views that have something to show here, and a table or an array.
  std::vector<const ViewInfo*> shown_views() {
    std::vector<const ViewInfo*> shown;
    for (const ViewInfo& view : views())
      if ((view.table || view.array) && test::problem_of_view(workspace, view).empty())
        shown.push_back(&view);
    return shown;
  }
};

TEST_F(WorkspaceApart, ShowsTheSameAndComputesNothingAgain) {
  open();
  workspace.cursor.go_to(parse_goto("layer=1,q_head=4,chunk=5,key=400-404"));
  int tables = 0, arrays = 0;
  for (const ViewInfo* view : shown_views()) {
    ASSERT_EQ(test::problem_of_view(workspace, *view), "") << view->id;
    const auto apart = workspace.apart();
    const auto more_work = [&] { return apart->answers.jobs().status().size(); };
    apart->begin_frame();
    EXPECT_EQ(view->problem(*apart), "") << view->id;
    EXPECT_EQ(more_work(), 0U) << view->id << " is computed again";
    if (view->table != nullptr) {
      // Times of measurements are among them.
      EXPECT_TRUE(test::exact(view->table(*apart)).rows == test::exact(view->table(workspace)).rows)
          << view->id;
      ++tables;
    }
    if (view->array != nullptr) {
      const Array there = view->array(*apart), here = view->array(workspace);
      EXPECT_EQ(there.shape, here.shape) << view->id;
      EXPECT_TRUE(there.bytes == here.bytes) << view->id;
      ++arrays;
    }
    EXPECT_EQ(more_work(), 0U) << view->id << " is computed again";
  }
  EXPECT_GE(tables, 15);
  EXPECT_GE(arrays, 7);
}

// A view that is locked, and has options of its own, exports what it shows.
TEST_F(WorkspaceApart, SeesWhatAViewWithASightOfItsOwnSees) {
  open();
  const ViewInfo& view = view_named("selected_vs_true");
  workspace.cursor.go_to(parse_goto("layer=1,q_head=4,chunk=5"));
  Sight sight;
  sight.id = view.id;
  const TraceTab& tab = *workspace.traces.ready();
  sight.lock = lock_on(tab, lock_words(tab, tab.selection));
  workspace.cursor.go_to(parse_goto("layer=2,q_head=1,chunk=2"));
  ASSERT_EQ(test::problem_of_view(workspace, view), "");
  const auto elsewhere = test::exact(view.table(workspace)).rows;
  const Cursor::Through through(workspace.cursor, sight);
  ASSERT_EQ(test::problem_of_view(workspace, view), "");
  const auto locked = test::exact(view.table(workspace)).rows;
  ASSERT_NE(locked, elsewhere);
  const auto apart = workspace.apart();
  EXPECT_EQ(view.problem(*apart), "");
  EXPECT_EQ(apart->place().chunk, 5);
  EXPECT_EQ(test::exact(view.table(*apart)).rows, locked);
}

TEST_F(WorkspaceApart, OutlivesWhatTheWindowShowsNext) {
  open();
  const ViewInfo& view = view_named("kv_map");
  workspace.cursor.go_to(parse_goto("layer=1,q_head=4,chunk=5"));
  ASSERT_EQ(test::problem_of_view(workspace, view), "");
  const auto before = test::exact(view.table(workspace)).rows;
  const auto apart = workspace.apart();
  workspace.traces.close_active();
  std::vector<std::vector<std::string>> rows;
  std::thread([&] {
    EXPECT_EQ(view.problem(*apart), "");
    rows = test::exact(view.table(*apart)).rows;
  }).join();
  EXPECT_EQ(rows, before);
}

// What the window was still waiting for.
TEST_F(WorkspaceApart, ComputesWhatIsMissing) {
  open();
  const ViewInfo& view = view_named("kv_map");
  ASSERT_EQ(test::problem_of_view(workspace, view), "");
  std::unique_ptr<Workspace> apart;
  {
    const test::HeldLane held(workspace);
    workspace.cursor.set_method(Slot::A, "oracle:budget_tokens=33");
    workspace.begin_frame();
    EXPECT_NE(view.problem(workspace), "");
    apart = workspace.apart();
  }
  EXPECT_NE(view.problem(*apart), "");
  ASSERT_EQ(test::problem_of_view(*apart, view), "");
  ASSERT_EQ(test::problem_of_view(workspace, view), "");
  EXPECT_EQ(test::exact(view.table(*apart)).rows, test::exact(view.table(workspace)).rows);
}

}  // namespace
}  // namespace kvloupe::state
