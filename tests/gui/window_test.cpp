// Drives the window as a person would: opens traces, clicks, scrubs, changes the method, and holds
// the state behind the window to what was done.
#include "app/state/perspectives.h"
#include "app/state/questions/how_much/budget_sweep.h"
#include "app/state/questions/how_much/devices.h"
#include "app/state/questions/kept/kv_map.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace kvloupe {
namespace {

using state::Slot;
using test::WindowTest;

const std::string& trace() {
  static const std::string path = test::write_gui_trace("window.h5");
  return path;
}

TEST_F(WindowTest, OpensATraceFromTheDialog) {
  const std::string trace = std::filesystem::weakly_canonical(std::string(KVLOUPE_TEST_SOURCE_DIR) +
                                                              "/../data/goldens/group3_f16.h5");
  drive("open", [&](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    ctx->Yield(4);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemInputValue("##name", trace.c_str());
    ctx->Yield(4);
  });
  ASSERT_NE(workspace().traces.ready(), nullptr);
  EXPECT_EQ(workspace().traces.ready()->path, trace);
  // Its views are there, on real data.
  const auto map = workspace().ask(state::KvMapQuestion{place(), workspace().method()});
  EXPECT_EQ(map.state, state::ResultState::Ready) << map.error;
  drive("close", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_W); });
  EXPECT_EQ(workspace().traces.active(), nullptr);
}

TEST_F(WindowTest, ADamagedFileIsToldOnceAndLeavesNoTab) {
  const std::size_t before = explorer().messages().history().size();
  workspace().traces.open(__FILE__);
  settle();
  EXPECT_EQ(workspace().traces.active(), nullptr);
  ASSERT_EQ(explorer().messages().history().size(), before + 1);
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("window_test.cpp"));
}

TEST_F(WindowTest, TabsShowTheirViews) {
  open_alone(trace());
  EXPECT_TRUE(explorer().panels().visible("kv_map"));
  EXPECT_FALSE(explorer().panels().visible("attention_map"));
  for (const char* id :
       {"attention_map", "query_geometry", "query_relevance", "latency", "token_strip", "kv_map"}) {
    workspace().cursor.set_perspective(state::home_of(id).id);
    settle();
    drive(id, [id](ImGuiTestContext* ctx) {
      ImGuiWindow* window = ctx->GetWindowByRef(in(id).c_str());
      IM_CHECK(window != nullptr);
      ctx->MouseMoveToPos(window->DC.DockTabItemRect.GetCenter());
      ctx->MouseClick(0);
      ctx->Yield(3);
    });
    ASSERT_TRUE(explorer().panels().visible(id)) << id;
  }
}

TEST_F(WindowTest, TransportStepsScrubsAndPlays) {
  open_alone(trace());
  workspace().cursor.set_chunk(5);
  drive("buttons", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##transport/##next");
    IM_CHECK_EQ(place().chunk, 6);
    ctx->ItemClick("//##transport/##previous");
    ctx->ItemClick("//##transport/##previous");
    IM_CHECK_EQ(place().chunk, 4);
    ctx->ItemClick("//##transport/##first");
    IM_CHECK_EQ(place().chunk, 0);
    ctx->ItemClick("//##transport/##last");
    IM_CHECK_EQ(place().chunk, 15);
  });
  drive("keys", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_Home);
    IM_CHECK_EQ(place().chunk, 0);
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->KeyPress(ImGuiKey_RightArrow);
    IM_CHECK_EQ(place().chunk, 2);
    ctx->KeyPress(ImGuiMod_Shift | ImGuiKey_RightArrow);
    IM_CHECK_EQ(place().chunk, 10);
    ctx->KeyPress(ImGuiKey_DownArrow);
    IM_CHECK_EQ(place().layer, 3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_LeftBracket);
    IM_CHECK_EQ(place().layer, 2);
    ctx->KeyPress(ImGuiKey_X);
    IM_CHECK(selection().shown == Slot::B);
    ctx->KeyPress(ImGuiKey_X);
  });
  drive("scrub", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue("//##transport/##chunk", 9);
    IM_CHECK_EQ(place().chunk, 9);
  });
  drive("play", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_Space);
    IM_CHECK(explorer().playing());
    ctx->SleepNoSkip(1.5F, 1.0F / 30);
    ctx->KeyPress(ImGuiKey_Space);
    IM_CHECK(!explorer().playing());
  });
  EXPECT_NE(place().chunk, 9);
}

TEST_F(WindowTest, MethodAndBudgetChangeOnTheSpot) {
  open_alone(trace());
  workspace().cursor.set_run(Slot::A, 0);
  drive("budget", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/###method A button");
    ctx->ItemInputValue("budget_tokens", 100);
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  EXPECT_THAT(selection().choice(Slot::A).text, HasSubstr("budget_tokens=100"));
  EXPECT_EQ(selection().choice(Slot::A).run, -1) << "a new budget is selected anew, in open loop";
  const auto map = workspace().ask(state::KvMapQuestion{place(), workspace().method(Slot::A)});
  ASSERT_EQ(map.state, state::ResultState::Ready);
  EXPECT_EQ(map->map.kept.back(), 100);
  drive("method", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/###method A button");
    open_popup(ctx, "##method");
    ctx->ItemClick((selection::find_method("sliding_window")->title + "##sliding_window").c_str());
    ctx->Yield(3);
    ctx->PopupCloseAll();
  });
  EXPECT_THAT(selection().choice(Slot::A).text, HasSubstr("sliding_window:budget_tokens=100"));
}

// Another device computes what is shown anew; one that cannot be used is not chosen.
TEST_F(WindowTest, TheDeviceIsChosenInTheBar) {
  open_alone(trace());
  workspace().cursor.set_method(Slot::A, "quoka:budget_tokens=60");
  settle();
  const auto on_cpu = workspace().ask(state::KvMapQuestion{place(), workspace().method(Slot::A)});
  ASSERT_EQ(on_cpu.state, state::ResultState::Ready);
  const std::string key = place().layer_key();
  const auto choose = [](ImGuiTestContext* ctx, const char* id) {
    open_popup(ctx, "//##transport/##device");
    const auto devices = workspace().ask(state::DevicesQuestion{});
    IM_CHECK(static_cast<bool>(devices));
    for (const device::ListedDevice& one : *devices.answer)
      if (one.info.id == id) {
        const std::string line = one.info.id + "  " + one.info.name;
        if (one.available())
          ctx->ItemClick(line.c_str());
        else
          ctx->MouseMove(line.c_str());
      }
    ctx->Yield(3);
    ctx->PopupCloseAll();
  };
  workspace().ask(state::DevicesQuestion{});
  settle();
  drive("sim", [&](ImGuiTestContext* ctx) { choose(ctx, "sim"); });
  EXPECT_EQ(place().device, "sim");
  EXPECT_NE(place().layer_key(), key);
  settle();
  const auto on_sim = workspace().ask(state::KvMapQuestion{place(), workspace().method(Slot::A)});
  ASSERT_EQ(on_sim.state, state::ResultState::Ready) << on_sim.error;
  EXPECT_EQ(on_sim->map.kept, on_cpu->map.kept);
  // Where there is no GPU the row says why, and a click changes nothing.
  drive("cuda", [&](ImGuiTestContext* ctx) { choose(ctx, "cuda"); });
  EXPECT_EQ(place().device, "sim");
  drive("cpu", [&](ImGuiTestContext* ctx) { choose(ctx, "cpu"); });
  EXPECT_EQ(place().layer_key(), key);
}

TEST_F(WindowTest, ARunOfTheListBecomesAOrB) {
  open_alone(trace());
  workspace().cursor.set_run(Slot::A, 0);
  const auto recorded = workspace().traces.ready()->recorded;
  ASSERT_GE(recorded.size(), 3U);
  drive("runs", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in("Runs", "/runs/$$1/###name").c_str());
    ctx->KeyDown(ImGuiMod_Ctrl);
    ctx->ItemClick(in("Runs", "/runs/$$2/###name").c_str());
    ctx->KeyUp(ImGuiMod_Ctrl);
  });
  EXPECT_EQ(selection().choice(Slot::A), recorded[1]);
  EXPECT_EQ(selection().choice(Slot::B), recorded[2]);
  drive("runs by letter",
        [](ImGuiTestContext* ctx) { ctx->ItemClick(in("Runs", "/runs/$$0/A").c_str()); });
  EXPECT_EQ(selection().choice(Slot::A), recorded[0]);
  EXPECT_EQ(selection().choice(Slot::B), recorded[2]);
}

// What was tried here is saved by the command line, or forgotten.
TEST_F(WindowTest, AMethodThatWasTriedIsSavedOrRemoved) {
  open_alone(trace());
  const auto* tab = workspace().traces.ready();
  workspace().cursor.set_method(Slot::A, "oracle:budget_tokens=64");
  settle();
  ASSERT_EQ(tab->tried.size(), 1U);
  static std::vector<std::string> asked;  // written by a job, read when all are done
  asked.clear();
  explorer().runs().run_command = [](const std::vector<std::string>& arguments,
                                     const CancelToken&) {
    asked = arguments;
    return std::string("error: the disk is full");
  };
  const std::string row = in("Runs", fmt::format("/runs/$${}/###name", tab->recorded.size()));
  const auto choose = [&](const char* name) {
    drive("menu of a run", [&](ImGuiTestContext* ctx) {
      ctx->ItemClick(row.c_str(), ImGuiMouseButton_Right);
      ctx->Yield(2);
      ctx->ItemClick((std::string("//$FOCUSED/") + name).c_str());
      ctx->Yield(2);
    });
  };
  choose("Save as a run of the trace");
  EXPECT_EQ(asked, (std::vector<std::string>{"select", tab->path, "--method",
                                             workspace().method(Slot::A).text, "--save"}));
  EXPECT_EQ(explorer().messages().history().back(), "error: the disk is full");
  choose("Remove from the list");
  EXPECT_TRUE(tab->tried.empty());
}

// The window is not closed over it unasked, and its trace shows it wherever the user went.
TEST_F(WindowTest, ARunIsSavedWhileAnotherTraceIsInFront) {
  const std::string other = test::write_gui_trace("in_front.h5");
  open_alone(trace());
  workspace().cursor.set_method(Slot::A, "oracle:budget_tokens=64");
  settle();
  const state::TraceTab* tab = workspace().traces.ready();
  const std::string path = tab->path;
  const state::TracePtr before = tab->selection.place.trace;
  const std::string row = in("Runs", fmt::format("/runs/$${}/###name", tab->recorded.size()));
  std::atomic<bool> released = false;
  explorer().runs().run_command = [&](const std::vector<std::string>&, const CancelToken&) {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::string();
  };
  drive("save", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick(row.c_str(), ImGuiMouseButton_Right);
    ctx->Yield(2);
    ctx->ItemClick("//$FOCUSED/Save as a run of the trace");
    ctx->Yield(2);
    explorer().ask_to_quit();
    ctx->Yield(3);
    const bool asked = !explorer().wants_quit();
    if (asked) ctx->ItemClick("//$FOCUSED/Keep it running");
    workspace().traces.open(other);
    released = true;  // what follows waits for it
    IM_CHECK(asked);
  });
  const state::TraceTab* saved = workspace().traces.find(path);
  ASSERT_NE(saved, nullptr);
  EXPECT_NE(saved, workspace().traces.active());
  EXPECT_NE(saved->selection.place.trace, before) << "it was read anew";
}

// Whoever knows a method's name finds it, sees its help and changes a parameter.
TEST_F(WindowTest, EveryMethodIsFoundByItsNameAndEdited) {
  using selection::ParamInfo;
  open_alone(trace());
  for (const selection::MethodInfo& method : selection::catalogue()) {
    const bool needs_file =
        std::any_of(method.params.begin(), method.params.end(), [](const ParamInfo& param) {
          return param.type == selection::ParamType::Path && param.default_text.empty();
        });
    if (needs_file) continue;
    const bool budget = method.budget == selection::BudgetUse::Required;
    drive(method.id.c_str(), [&](ImGuiTestContext* ctx) {
      open_popup(ctx, "//##transport/###method A button");
      open_popup(ctx, "##method");
      ctx->ItemInputValue("##find", method.id.c_str());
      ctx->Yield(3);
      ctx->SetRef("//$FOCUSED");
      if (budget) ctx->ItemInputValue("budget_tokens", 99);
      if (method.basis) ctx->ItemClick("self");
      ctx->ItemOpen("About this method");
      IM_CHECK(ctx->ItemIsOpened("About this method"));
      ctx->Yield(3);
      ctx->PopupCloseAll();
    });
    const state::MethodChoice& choice = selection().choice(Slot::A);
    EXPECT_EQ(choice.id(), method.id);
    EXPECT_EQ(choice.run, -1) << method.id << " is selected anew";
    if (budget) {
      EXPECT_THAT(choice.text, HasSubstr("budget_tokens=99"));
    }
    if (method.basis) {
      EXPECT_THAT(choice.text, HasSubstr("basis=self"));
    }
  }
}

TEST_F(WindowTest, AClickInTheOverviewGoesThere) {
  open_alone(trace());
  workspace().cursor.set_option("layer_head_overview.metric", "entropy");
  workspace().cursor.set_layer(0);
  settle();
  drive("overview", [](ImGuiTestContext* ctx) {
    const ImGuiTestItemInfo cells = ctx->ItemInfo(in("layer_head_overview", "/**/##cells").c_str());
    IM_CHECK(cells.ID != 0);
    // The last layer and the last of nine query heads are in the corner.
    ctx->MouseMoveToPos({cells.RectFull.Max.x - 3, cells.RectFull.Max.y - 3});
    ctx->MouseClick(0);
    ctx->Yield(3);
  });
  EXPECT_EQ(place().layer, 3);
  EXPECT_EQ(place().q_head, 8);
}

// The plot of budget_sweep: its pixel at a budget and a value.
ImVec2 pixel_in_sweep(const ImGuiWindow* window, double budget, double value) {
  ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
  for (int i = 0; i < plots.GetBufSize(); ++i) {
    ImPlotPlot* plot = plots.GetByIndex(i);
    if (window != nullptr && window->Rect().Contains(plot->PlotRect) &&
        plot->Axes[ImAxis_X1].Scale == ImPlotScale_Log10)
      return {plot->Axes[ImAxis_X1].PlotToPixels(budget),
              plot->Axes[ImAxis_Y1].PlotToPixels(value)};
  }
  ADD_FAILURE() << "no sweep is drawn";
  return {};
}

TEST_F(WindowTest, ABudgetIsChosenInTheSweep) {
  open_alone(trace());
  workspace().cursor.set_method(Slot::A, "oracle:budget_tokens=100");
  workspace().cursor.set_method(Slot::B, "streaming_llm:budget_tokens=100");
  // A trace with a needle opens on what is kept of that.
  EXPECT_EQ(workspace().option("budget_sweep", "metric"), "span_kept");
  workspace().cursor.set_option("budget_sweep.metric", "mass_recall");
  explorer().run_command("view.budget_sweep");
  settle();
  ASSERT_TRUE(explorer().panels().visible("budget_sweep"));
  const auto sweep = workspace().ask(state::budget_sweep_question(workspace()));
  ASSERT_EQ(sweep.state, state::ResultState::Ready) << sweep.error;
  const ImGuiWindow* window =
      ImGui::FindWindowByName(explorer().panels().window_of("budget_sweep").c_str());
  ImVec2 at;
  for (const state::SweepLine& line : state::sweep_lines(sweep.question, *sweep))
    for (const analysis::SweepPoint& point : line.curve->points)
      if (line.slot == Slot::B && point.budget == 256)
        at = pixel_in_sweep(window, 256, point.value(replay::Number::MassRecall));
  ASSERT_GT(at.x, 0);
  drive("sweep", [at](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(at);
    ctx->SleepNoSkip(0.6F, 0.05F);
    const ImGuiWindow* tip = ctx->GetWindowByRef("//##Tooltip_00");
    IM_CHECK(tip != nullptr && tip->Active);
    ctx->MouseClick(0);
    ctx->Yield(3);
  });
  EXPECT_EQ(selection().choice(Slot::B).spec->budget_tokens(), 256);
  EXPECT_EQ(selection().choice(Slot::B).id(), "streaming_llm");
  EXPECT_EQ(selection().choice(Slot::A).spec->budget_tokens(), 100);
}

// A sweep of a place that is not looked at any more does not run on.
TEST_F(WindowTest, TheNextSweepCancelsTheOneBefore) {
  open_alone(trace());
  explorer().run_command("view.budget_sweep");
  workspace().cursor.set_option("budget_sweep.scope", "trace");
  frames(2);
  const auto whole = state::budget_sweep_question(workspace());
  ASSERT_EQ(workspace().ask(whole).state, state::ResultState::Loading);
  workspace().cursor.set_option("budget_sweep.scope", "head");
  settle();
  EXPECT_EQ(workspace().ask(state::budget_sweep_question(workspace())).state,
            state::ResultState::Ready);
  const auto again = workspace().ask(whole);
  EXPECT_EQ(again.state, state::ResultState::Loading) << "it ran to its end";
  settle();
}

TEST_F(WindowTest, PaletteFindsActionsAndGotoGoes) {
  open_alone(trace());
  drive("palette", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
    ctx->Yield(3);
    ctx->KeyChars("view.query_rel");
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(4);
  });
  EXPECT_TRUE(explorer().panels().visible("query_relevance"));
  drive("goto", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_G);
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->KeyChars("layer=1,q_head=4,chunk=3");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
  });
  EXPECT_EQ(place().layer, 1);
  EXPECT_EQ(place().q_head, 4);
  EXPECT_EQ(place().chunk, 3);
  drive("sheet", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiKey_F1);
    ctx->Yield(3);
    IM_CHECK(ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup));
    ctx->PopupCloseAll();
  });
}

TEST_F(WindowTest, SearchJumpsToAToken) {
  open_alone(trace());
  explorer().panels().show("token_strip");
  settle();
  drive("search", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue(in("token_strip", "/##search").c_str(), "magic");
    ctx->Yield(3);
  });
  // The needle begins at token 768; "magic" is its sixth token.
  EXPECT_EQ(place().keys.first(), 773);
  EXPECT_EQ(place().keys.bound(), 774);
  // Of several tokens all are followed.
  drive("search two", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue(in("token_strip", "/##search").c_str(), "special magic");
    ctx->Yield(3);
  });
  EXPECT_EQ(place().keys.first(), 772);
  EXPECT_EQ(place().keys.bound(), 774);
}

TEST_F(WindowTest, ScaleAndThemeChange) {
  open_alone(trace());
  const float before = app->gui().scale();
  drive("scale", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Equal);
    ctx->Yield(2);
  });
  EXPECT_GT(app->gui().scale(), before);
  EXPECT_TRUE(explorer().run_command("scale.reset"));
  const auto theme = app->gui().theme();
  EXPECT_TRUE(explorer().run_command("theme"));
  frames(2);
  EXPECT_NE(app->gui().theme(), theme);
  EXPECT_TRUE(explorer().run_command("theme"));
  settle();
}

}  // namespace
}  // namespace kvloupe
