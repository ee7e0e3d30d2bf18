// From a cell of results that failed to the head that lost the answer, by mouse: the cell, the sample, and there.
#include "app/state/questions/results/lost_answer.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/window_fixture.h"
#include "tests/gui/workspace_steps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class WindowResults : public test::WindowTest {
 protected:
  // The results, with the trace of the sample that has one: the question is asked at its end, and the needle is the
  // answer. snapkv, which reads the last queries alone, is not recorded in it.
  static const std::string& results() {
    static const std::string path = [] {
      const fs::path trace = test::write_gui_trace("lost.h5");
      const fs::path folder = trace.parent_path() / "results";
      fs::create_directories(folder / "needles.traces");
      fs::copy_file(trace, folder / "needles.traces/lost.h5", fs::copy_options::overwrite_existing);
      fs::copy_file(test::results_file(), folder / "needles.h5",
                    fs::copy_options::overwrite_existing);
      return (folder / "needles.h5").string();
    }();
    return path;
  }
  static void click(const std::string& view, const std::string& item) {
    drive("click", [&](ImGuiTestContext* ctx) { ctx->ItemClick(in(view, item).c_str()); });
    settle();
  }
};

TEST_F(WindowResults, OpenWithoutATrace) {
  close_all();
  workspace().traces.open(results());
  settle();
  ASSERT_NE(workspace().results.ready(), nullptr);
  EXPECT_FALSE(workspace().has_trace());
  EXPECT_TRUE(explorer().panels().now().of_results);
  EXPECT_TRUE(explorer().panels().visible("task_scores"));
  EXPECT_TRUE(explorer().panels().visible("needle_grid"));
  save_picture("results.png");
}

// By the menu of the tab, without a trace.
TEST_F(WindowResults, AFigureIsShownBeforeItIsWritten) {
  close_all();
  workspace().traces.open(results());
  settle();
  ASSERT_FALSE(workspace().has_trace());
  std::vector<std::string> drawn;
  const auto before = explorer().exporter().run_command;
  explorer().exporter().run_command = [&](const std::vector<std::string>& arguments,
                                          const CancelToken&) {
    drawn = arguments;
    return std::string("no picture in this test");
  };
  for (const char* view : {"task_scores", "needle_grid"}) {
    drawn.clear();
    drive("figure", [&](ImGuiTestContext* ctx) {
      ImGuiWindow* window = ctx->GetWindowByRef(in(view).c_str());
      IM_CHECK(window != nullptr);
      ctx->MouseMoveToPos(window->DC.DockTabItemRect.GetCenter());
      ctx->MouseClick(1);
      ctx->Yield(3);
      ctx->ItemClick("//$FOCUSED/Figure\u2026");
      ctx->SleepNoSkip(0.6F, 1.0F / 30);
    });
    settle();
    ASSERT_TRUE(explorer().figure_sheet().is_open());
    ASSERT_GE(drawn.size(), 4U) << view;
    EXPECT_EQ(drawn[0], "export");
    EXPECT_EQ(drawn[1], workspace().results.path());
    EXPECT_THAT(drawn, testing::Contains(view));
    // A form that is chosen is drawn anew, and stays for the next figure.
    drive("paper", [](ImGuiTestContext* ctx) {
      ctx->ItemClick("//###figure/**/for paper");
      ctx->SleepNoSkip(0.6F, 1.0F / 30);
    });
    settle();
    EXPECT_THAT(drawn, testing::Contains("--column")) << view;
    explorer().figure_sheet().close();
  }
  explorer().exporter().run_command = before;
}

// A sample without a trace: the command that records it, and the results as they are then.
TEST_F(WindowResults, SaysHowASampleIsRecorded) {
  close_all();
  workspace().traces.open(results());
  settle();
  click("task_scores", "task_scores/$$5/##cell");
  const trace::ResultSample* without = nullptr;
  for (const std::int32_t index : workspace().results.sight.of_listed)
    if (const auto& sample = workspace().results.ready()->sample(index); sample.trace.empty()) {
      without = &sample;
      break;
    }
  ASSERT_NE(without, nullptr);
  const std::string id = without->id;
  const int before = workspace().results.ready()->id;
  // As it is once a sample was recorded, and not what the finding names.
  const std::vector<std::int32_t> listed = workspace().results.sight.of_listed;
  ASSERT_EQ(listed.size(), 24U);
  std::string copied;
  drive("record", [&](ImGuiTestContext* ctx) {
    open_popup(ctx, in("task_scores", "**/Record..."));
    ctx->ItemClick("Copy the command");
    copied =
        ImGui::GetClipboardText();  // while a script runs the engine has a clipboard of its own
    ctx->ItemClick("Reload the results");
  });
  EXPECT_EQ(copied, "python -m kvloupe eval record " + results() + " " + id);
  settle();
  ASSERT_TRUE(workspace().results.ready());
  EXPECT_NE(workspace().results.ready()->id, before);
  EXPECT_EQ(workspace().results.sight.listed, "quoka 256, kvloupe_niah");
  EXPECT_EQ(workspace().results.sight.of_listed, listed);
}

TEST_F(WindowResults, FromACellToTheHeadThatLostTheAnswer) {
  close_all();
  workspace().traces.open(results());
  settle();
  // snapkv, the last of four rows; kvloupe_niah, the second of two columns.
  click("task_scores", "task_scores/$$7/##cell");
  EXPECT_EQ(workspace().results.sight.listed, "snapkv 64, kvloupe_niah");
  EXPECT_EQ(workspace().results.sight.of_listed.size(), 24U);
  save_picture("samples.png");
  click("task_scores", "**/Why?");
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(place().trace->name, "lost.h5");
  EXPECT_EQ(explorer().panels().now().id, "lost");
  EXPECT_EQ(workspace().method().text.rfind("snapkv", 0), 0U) << workspace().method().text;
  EXPECT_THAT(workspace().method(state::Slot::B).text,
              testing::StartsWith("quoka:budget_tokens=64"))
      << "which answered it";
  frames(4);
  settle();
  EXPECT_TRUE(workspace().results.sight.following.empty());
  const auto now = state::span_loss_now(
      workspace(), state::span_loss_question(workspace(), workspace().method()), false);
  ASSERT_NE(now.loss, nullptr);
  double most = 0, here = 0;
  for (const replay::SpanHead& head : now.loss->heads) {
    most = std::max(most, head.lost_mass);
    if (state::is_head_of(place(), *now.loss, head)) here = head.lost_mass;
  }
  EXPECT_GT(most, 0);
  EXPECT_EQ(here, most);
  save_picture("why.png");
  // And back, to the list that is still there.
  explorer().run_command("go.results");
  settle();
  EXPECT_TRUE(explorer().panels().visible("task_scores"));
  EXPECT_FALSE(workspace().results.sight.listed.empty());
  // The trace's tab leads to the trace.
  const int tab = workspace().traces.active()->id;
  drive("tab", [tab](ImGuiTestContext* ctx) {
    ctx->ItemClick(fmt::format("//##MainMenuBar/##MenuBar/lost.h5##tab{}", tab).c_str());
  });
  settle();
  EXPECT_FALSE(explorer().panels().now().of_results);
}

TEST_F(WindowResults, TheSamplesOfTheFindingAreListedUntilSomethingIsClicked) {
  explorer().run_command("results.close");
  close_all();
  workspace().traces.open(results());
  settle();
  const state::ResultsSight& sight = workspace().results.sight;
  EXPECT_EQ(sight.listed, "snapkv 64, kvloupe_niah") << "the finding names this cell";
  EXPECT_EQ(sight.of_listed.size(), 24U);
  workspace().choose("task_scores", "across", "budget");
  settle();
  EXPECT_THAT(sight.listed, testing::StartsWith("snapkv, ")) << "it follows the finding";
  // Dense reads all keys: one cell as wide as the two budgets.
  click("task_scores", "task_scores/$$0/##cell");
  EXPECT_EQ(sight.listed, "dense, all keys");
  save_picture("budgets.png");
  workspace().choose("task_scores", "across", "task");
  settle();
  EXPECT_EQ(sight.listed, "dense, all keys") << "what was clicked stays";
  click("task_scores", "Close##samples");
  EXPECT_TRUE(sight.listed.empty()) << "and what was closed";
}

TEST_F(WindowResults, AShorterFileInPlaceOfTheListedOne) {
  close_all();
  // 792 samples of real needles first.
  const std::string path = results() + ".again.h5";
  fs::copy_file(KVLOUPE_TEST_SOURCE_DIR "/../../assets/results/smollm2_needles.h5", path,
                fs::copy_options::overwrite_existing);
  workspace().traces.open(path);
  settle();
  const auto& sight = workspace().results.sight;
  ASSERT_EQ(sight.listed, "h2o, 64 keys");
  const std::int32_t most = *std::ranges::max_element(sight.of_listed);
  fs::copy_file(results(), path, fs::copy_options::overwrite_existing);
  workspace().traces.open(path);
  frames(30);
  settle();
  const state::ReadResults& read = *workspace().results.ready();
  ASSERT_LE(read.file.samples.size(), static_cast<std::size_t>(most)) << "some are gone";
  EXPECT_EQ(sight.listed, "snapkv, 64 keys");
  ASSERT_FALSE(sight.of_listed.empty());
  for (const std::int32_t index : sight.of_listed)
    EXPECT_EQ(read.sample(index).method, "snapkv:budget_tokens=64");
  explorer().run_command("results.close");
}

TEST_F(WindowResults, OthersAreComparedWithTheRowThatIsClicked) {
  close_all();
  workspace().traces.open(results());
  settle();
  click("task_scores", "task_scores/$$1/##row");
  EXPECT_EQ(workspace().results.against(), "quoka:budget_tokens=64");
  explorer().run_command("results.close");
  settle();
  EXPECT_FALSE(workspace().results.is_open());
}

TEST_F(WindowResults, ClosedGiveTheirMemoryBack) {
  close_all();
  const auto held = [] { return workspace().memory->held(MemoryPart::Load); };
  const std::uint64_t before = held();
  workspace().traces.open(results());
  settle();
  frames(4);
  EXPECT_GT(held(), before);
  drive("close", [](ImGuiTestContext* ctx) {
    ctx->ItemClick("//##MainMenuBar/##MenuBar/\u00D7##close results");
  });
  frames(4);
  EXPECT_FALSE(workspace().results.is_open());
  EXPECT_EQ(held(), before) << "no view holds what it drew";
}

// Another file that cannot be read leaves what is shown of this one.
TEST_F(WindowResults, WhatIsChosenStaysWhereAnotherFileCannotBeRead) {
  close_all();
  workspace().traces.open(results());
  settle();
  click("task_scores", "task_scores/$$1/##row");
  const std::string against = workspace().results.against();
  ASSERT_NE(against, "dense");
  workspace().choose("task_scores", "across", "budget");
  workspace().results.open("/nonexistent.h5");
  settle();
  EXPECT_EQ(workspace().results.path(), std::filesystem::absolute(results()));
  EXPECT_EQ(workspace().results.against(), against);
  EXPECT_EQ(workspace().option("task_scores", "across"), "budget");
  explorer().run_command("results.close");
  settle();
}

TEST_F(WindowResults, AFileThatIsGoneIsSaidOnce) {
  close_all();
  const std::string copy = results() + ".copy.h5";
  fs::copy_file(results(), copy, fs::copy_options::overwrite_existing);
  workspace().traces.open(copy);
  settle();
  fs::remove(copy);
  const std::size_t said = explorer().messages().history().size();
  explorer().run_command("results.reload");
  settle();
  ASSERT_EQ(explorer().messages().history().size(), said + 1);
  EXPECT_NE(workspace().results.ready(), nullptr);  // what was read stays
  workspace().results.close();
  settle();
}

}  // namespace
}  // namespace kvloupe
