// What a drag chooses: with nothing drawn, where an answer is still to come, and by two controls of one method.
#include "app/shell/methods/method_knobs.h"
#include "app/figure/headless.h"
#include "app/state/questions/kept/kv_map.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/workspace_steps.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace kvloupe {
namespace {

using shell::Edit;
using shell::MethodKnobs;
using state::Slot;

class Knobs : public ::testing::Test {
 protected:
  Knobs() {
    workspace.traces.open(test::write_gui_trace("method_knobs.h5", {.num_tokens = 640}));
    test::settle(workspace);
    workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=64,num_queries=8");
  }
  // In a frame of its own: the control says this number.
  void edit(MethodKnobs& knobs, const std::string& num_queries, Edit how) {
    renderer.frame([&] {
      knobs.follow(workspace, Slot::A);
      knobs.draft().set("num_queries", num_queries);
      knobs.apply(workspace, Slot::A, how);
    });
  }
  std::string value() const {
    for (const auto& [name, text] : workspace.method(Slot::A).spec->parameters())
      if (name == "num_queries") return text;
    return "";
  }
  std::size_t num_tried() { return workspace.traces.active()->tried.size(); }

  figure::HeadlessRenderer renderer{800, 600, 1.0F};
  state::Workspace workspace;
};

TEST_F(Knobs, WhatWasShownOnTheWayIsUndoneWhereTheSliderComesBack) {
  MethodKnobs knobs;
  edit(knobs, "4", Edit::Live);
  EXPECT_EQ(value(), "4");
  // Until its answer is taken the next number waits.
  workspace.ask(state::KvMapQuestion{workspace.place(), workspace.method(Slot::A)});
  ASSERT_TRUE(workspace.answers.busy());
  edit(knobs, "8", Edit::Live);
  EXPECT_EQ(value(), "4");
  edit(knobs, "8", Edit::Done);
  EXPECT_EQ(value(), "8");
}

TEST_F(Knobs, ASliderThatIsPressedAndNotMovedChoosesNothing) {
  workspace.traces.active()->tried.clear();
  MethodKnobs knobs;
  edit(knobs, "8", Edit::Live);
  edit(knobs, "8", Edit::Done);
  EXPECT_EQ(num_tried(), 0U);
  edit(knobs, "4", Edit::Live);
  edit(knobs, "4", Edit::Done);
  EXPECT_EQ(num_tried(), 1U);
}

TEST_F(Knobs, ADragByAnotherControlIsAStepOfItsOwn) {
  MethodKnobs of_tour, of_card;
  edit(of_tour, "4", Edit::Live);
  edit(of_tour, "4", Edit::Done);
  edit(of_card, "2", Edit::Live);
  edit(of_card, "2", Edit::Done);
  workspace.cursor.back();
  EXPECT_EQ(value(), "4");
  workspace.cursor.back();
  EXPECT_EQ(value(), "8");
}

TEST_F(Knobs, ADragEndsWithItsControl) {
  MethodKnobs knobs;
  edit(knobs, "4", Edit::Live);
  renderer.frame([] {});  // it is not drawn
  workspace.cursor.set_method(Slot::A, "snapkv:budget_tokens=64");
  renderer.frame([&] {
    knobs.follow(workspace, Slot::A);
    knobs.apply(workspace, Slot::A, Edit::None);
  });
  EXPECT_EQ(workspace.method(Slot::A).id(), "snapkv");
}

}  // namespace
}  // namespace kvloupe
