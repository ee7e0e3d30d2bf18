// The parameters of the method as sliders: the view follows the hand, and a drag is one step back.
#include "app/state/perspectives.h"
#include "app/state/questions/how_it_works/slot_scores.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>

#include <set>

namespace kvloupe {
namespace {

using state::Slot;

class WindowKnobs : public test::WindowTest {
 protected:
  void SetUp() override {
    static const std::string path = test::write_gui_trace("knobs.h5");
    open_alone(path);
    workspace().cursor.set_run(Slot::A, 0);  // quoka
    workspace().cursor.set_run(Slot::B, 1);
    workspace().cursor.show(Slot::A);
    workspace().cursor.set_chunk(15);
    workspace().cursor.set_perspective("works");
    settle();
    explorer().panels().show("slot_scores");
    settle();
  }
  static std::string knob(const std::string& param) {
    return in(state::kMethodWindow, "/**/##" + param);
  }
  static std::string value(const std::string& name, Slot slot = Slot::A) {
    for (const auto& [param, text] : workspace().method(slot).spec->parameters())
      if (param == name) return text;
    return "none";
  }
  static void drag(const std::string& param, float share) {
    drive("drag", [&](ImGuiTestContext* ctx) { drag_slider(ctx, knob(param), share); });
  }
};

TEST_F(WindowKnobs, TheViewFollowsASliderAndOneStepBackUndoesTheDrag) {
  const state::MethodChoice before = workspace().method(Slot::A);
  std::set<std::int64_t> slots;  // how many the view had while the slider was held
  drive("drag slowly", [&](ImGuiTestContext* ctx) {
    ctx->MouseMove(knob("num_queries").c_str());
    const ImRect rect = ctx->ItemInfo(knob("num_queries").c_str()).RectFull;
    ctx->MouseDown(0);
    for (const float share : {0.8F, 0.6F, 0.4F, 0.2F, 0.0F}) {
      ctx->MouseMoveToPos({rect.Min.x + share * rect.GetWidth(), rect.GetCenter().y});
      ctx->SleepNoSkip(0.4F, 1.0F / 30);
      const auto shown = [] { return workspace().ask(state::slot_scores_question(workspace())); };
      while (!shown()) ctx->Yield();  // the engine's watchdog ends it
      slots.insert(shown()->slots.num_slots());
    }
    IM_CHECK(ctx->ItemInfo(knob("num_queries").c_str()).ID == ImGui::GetActiveID());
    ctx->MouseUp(0);
  });
  EXPECT_GE(slots.size(), 3U) << "the view was drawn while the slider was held";
  EXPECT_EQ(value("num_queries"), "1");
  EXPECT_EQ(value("num_queries", Slot::B), "none") << "the other method stays";
  const auto one = workspace().ask(state::slot_scores_question(workspace()));
  ASSERT_TRUE(one) << one.error;
  EXPECT_EQ(one->slots.num_slots(), 1);
  save_picture("knobs.png");
  explorer().run_command("undo");
  settle();
  EXPECT_EQ(workspace().method(Slot::A), before) << "one step for all of the drag";
  explorer().run_command("redo");
  settle();
  EXPECT_EQ(value("num_queries"), "1");
  // What was on the way was not tried, where it ended was.
  EXPECT_EQ(workspace().traces.active()->tried.size(), 1U);
}

TEST_F(WindowKnobs, ASecondDragIsAStepOfItsOwn) {
  drag("budget_tokens", 0.5F);
  const std::string first = value("budget_tokens");
  drag("budget_tokens", 0.25F);
  const std::string second = value("budget_tokens");
  EXPECT_LT(std::stoi(second), std::stoi(first));
  explorer().run_command("undo");
  settle();
  EXPECT_EQ(value("budget_tokens"), first);
}

TEST_F(WindowKnobs, TakesTypedNumbersSingleStepsAndWords) {
  drive("type", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue(knob("num_queries").c_str(), 12);
    ctx->Yield(3);
  });
  EXPECT_EQ(value("num_queries"), "12");
  drive("step", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in(state::kMethodWindow, "/**/+##more num_queries").c_str());
    ctx->Yield(3);
  });
  EXPECT_EQ(value("num_queries"), "13");
  drive("word", [](ImGuiTestContext* ctx) {
    open_popup(ctx, in(state::kMethodWindow, "/$$0/##parameters/##query_reduce"));
    ctx->ItemClick("mean");
    ctx->Yield(3);
  });
  EXPECT_EQ(value("query_reduce"), "mean");
}

// It shows what stands in, which is nobody's choice, without controls.
TEST_F(WindowKnobs, OfAMethodThatStandsInNothingCanBeChanged) {
  workspace().cursor.show(Slot::B);  // streaming_llm has no slots
  settle();
  explorer().panels().show("slot_scores");
  settle();
  ASSERT_TRUE(workspace().explained.method());
  EXPECT_TRUE(explorer().panels().visible(state::kMethodWindow));
  drive("look", [](ImGuiTestContext* ctx) {
    IM_CHECK(ctx->ItemInfo(knob("num_queries").c_str(), ImGuiTestOpFlags_NoError).ID == 0);
  });
  workspace().cursor.show(Slot::A);
  settle();
}

}  // namespace
}  // namespace kvloupe
