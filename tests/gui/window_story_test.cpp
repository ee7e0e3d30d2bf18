// One user's way from a prompt of their own to a figure and a note, by mouse and keyboard, with the
// model that comes with KVLoupe; then the window is closed, and a new one goes on from there.
#include "app/figure/image.h"
#include "app/shell/frame/dock_tree.h"
#include "app/shell/saved/notes_file.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "app/state/shown_methods.h"
#include "core/base/run_self.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/gui/held_display.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/slowness.h"
#include "tests/gui/window_fixture.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using shell::CaptureStage;
using state::Slot;

std::string form(const std::string& name) { return "//###capture/**/" + name; }

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string sentences(int first, int count) {
  std::string text;
  for (int i = first; i < first + count; ++i)
    text += " On day " + std::to_string(i) +
            " the ferry left the harbour at noon, and the pilot wrote the weather into his book.";
  return text;
}

class WindowStory : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    fs::remove_all(fs::current_path() / "config");
    start_remembering();
  }
  static void start_remembering(int width = 1560, int height = 860) {
    shell::AppWindow::Options options;
    options.settings.window_width = width;
    options.settings.window_height = height;
    start(std::move(options));
    explorer().capture().run().program = KVLOUPE_PROGRAM;
    explorer().capture().estimator().program = KVLOUPE_PROGRAM;
    explorer().exporter().run_command = [](const std::vector<std::string>& arguments,
                                           const CancelToken& cancel) {
      OwnCommand command(arguments, {.program = KVLOUPE_PROGRAM, .standard_input = {}});
      command.finish(cancel);
      return command.problem();
    };
  }
  static bool until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120 * test::kSlowness);
    while (!condition() && std::chrono::steady_clock::now() < end) frames(1);
    return condition();
  }
  static void start_again(int width = 1560, int height = 860) {
    const test::HeldDisplay display;
    TearDownTestSuite();  // the window is closed
    start_remembering(width, height);
    ASSERT_TRUE(until([] { return workspace().has_trace() || workspace().results.ready(); }));
    settle();
  }
  std::string output() const { return (folder_ / "ferry.h5").string(); }

  static void paste(ImGuiTestContext* ctx, const std::string& text) {
    ImGui::SetClipboardText(text.c_str());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
    ctx->Yield(3);
  }
  static void add_method(ImGuiTestContext* ctx, const char* spec) {
    open_popup(ctx, form("Add a method"));
    ctx->ItemClick("##method");
    ctx->Yield(3);
    ctx->KeyChars(spec);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
    ctx->SetRef("");
  }
  static void click(const std::string& item) {
    drive("click", [&](ImGuiTestContext* ctx) { ctx->ItemClick(item.c_str()); });
  }
  static void go(const std::string& workspace_id) { click("//##rail/" + workspace_id); }
  static state::SpanLossNow loss_of(Slot slot) {
    return state::span_loss_now(
        workspace(), state::span_loss_question(workspace(), workspace().method(slot)), false);
  }

  // To its end, layer by layer.
  static bool is_explained(Slot slot) {
    const state::SpanLossNow now = loss_of(slot);
    return now.loss != nullptr && now.doing.empty();
  }

  void capture_own_prompt();
  static void find_why_it_was_lost();
  void export_figure();
  void see_figure_before_it_is_written();

  TemporaryFolder folder_;
};

void WindowStory::capture_own_prompt() {
  drive("describe", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick("//Welcome/New capture\u2026");
    ctx->Yield(4);
    ctx->ItemInputValue(form("##model").c_str(), "smollm2");
    ctx->ItemClick(form("##prompt").c_str());
    paste(ctx, sentences(1, 12) + " The number of the lighthouse is 4815162");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_LeftArrow);
    ctx->Yield(2);
    ctx->ItemClick(form("##span name").c_str());
    ctx->KeyChars("number");
    ctx->Yield(2);
    ctx->ItemClick(form("Add span").c_str());
    ctx->ItemClick(form("##prompt").c_str());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_End);
    paste(ctx, "." + sentences(13, 24) + " What is the number of the lighthouse?");
    add_method(ctx, "streaming");
    add_method(ctx, "quoka");
    ctx->ItemInputValue(form("tokens of a chunk").c_str(), 64);
    ctx->ItemInputValue(form("##output").c_str(), output().c_str());
  });
  ASSERT_THAT(explorer().capture().form().request().spans, SizeIs(1));
  EXPECT_EQ(explorer().capture().form().request().spans[0].text, "4815162");
  ASSERT_TRUE(until([] { return explorer().capture().estimator().cost().has_value(); }))
      << explorer().capture().estimator().problem() << explorer().capture().obstacle();
  click(form("###start"));
  ASSERT_TRUE(until([] { return explorer().capture().run().stage() == CaptureStage::Done; }))
      << explorer().capture().run().message();
  ASSERT_TRUE(until(
      [&] { return workspace().has_trace() && workspace().traces.ready()->path == output(); }));
  settle();
}

// The last chunk asks; A has dropped the number, and a budget is found that keeps it.
void WindowStory::find_why_it_was_lost() {
  ASSERT_THAT(selection().choice(Slot::A).text, StartsWith("streaming_llm"));
  ASSERT_THAT(selection().choice(Slot::B).text, StartsWith("quoka"));
  drive("watch", [](ImGuiTestContext* ctx) {
    open_popup(ctx, "//##transport/##span");
    ctx->ItemClick("**/number");
    ctx->Yield(3);
  });
  ASSERT_TRUE(state::watched_keys(place()));
  EXPECT_EQ(state::watched_keys(place())->name, "number");
  go("lost");
  ASSERT_TRUE(explorer().panels().visible("miss_inspector"));
  ASSERT_TRUE(until([] { return is_explained(Slot::A); }));
  const state::SpanLossNow now = loss_of(Slot::A);
  ASSERT_EQ(now.error, "");
  ASSERT_GT(now.loss->sums().lost(), 0) << replay::sentence_of(*now.loss);
  EXPECT_TRUE(now.loss->has_causes);
  EXPECT_THAT(now.loss->sums().causes(), Not(IsEmpty()));
  EXPECT_THAT(now.loss->heads_of_mass(replay::kShareThatMatters), Not(IsEmpty()));
  ASSERT_TRUE(now.loss->sums().enough) << "the budget that would keep all of it";
}

void WindowStory::export_figure() {
  export_view("kv_map", "png", folder_ / "figure.png");
  EXPECT_TRUE(until([&] { return fs::exists(folder_ / "figure.png"); }))
      << explorer().messages().history().back();
  EXPECT_TRUE(until([] { return !workspace().answers.busy(); }));
  EXPECT_GT(fs::file_size(folder_ / "figure.png"), 10'000U);
}

// The sheet shows what the command line draws, follows its form, and writes it.
void WindowStory::see_figure_before_it_is_written() {
  ASSERT_TRUE(explorer().run_command("figure.kv_map"));
  const auto& sheet = explorer().figure_sheet();
  ASSERT_TRUE(until([&] { return sheet.is_current(); }));
  ASSERT_EQ(sheet.preview()->problem, "");
  EXPECT_EQ(sheet.preview()->image.width, 1600);
  EXPECT_EQ(figure::png_bytes(sheet.preview()->image),
            figure::png_bytes(figure::image_of_png(text_of(folder_ / "figure.png"))));
  save_picture("story_figure.png");
  drive("on paper, without its head", [](ImGuiTestContext* ctx) {
    ctx->SetRef("//###figure");
    ctx->ItemClick("**/for paper");
    ctx->ItemInputValue("**/##column", 17.0F);
    ctx->ItemUncheck("**/title and chips");
    ctx->Yield(3);
  });
  ASSERT_TRUE(until([&] { return sheet.is_current(); }));
  EXPECT_NEAR(sheet.preview()->image.width, 17 / 2.54 * 300, 2);
  save_picture("story_figure_paper.png");
  // One that was cancelled is drawn on request.
  auto& run_command = explorer().exporter().run_command;
  const auto draws = run_command;
  std::atomic<bool> released = false;
  run_command = [&](const std::vector<std::string>&, const CancelToken&) {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::string();
  };
  drive("wider", [](ImGuiTestContext* ctx) {
    ctx->SetRef("//###figure");
    ctx->ItemInputValue("**/##column", 18.0F);
  });
  ASSERT_TRUE(until([] { return !workspace().answers.jobs().status().empty(); }));
  workspace().answers.give_up("figure");
  released = true;
  run_command = draws;
  ASSERT_TRUE(until([] { return workspace().answers.jobs().idle(); }));
  frames(30);
  ASSERT_FALSE(sheet.is_current());
  drive("draw it", [](ImGuiTestContext* ctx) {
    ctx->SetRef("//###figure");
    ctx->ItemClick("**/Draw it");
  });
  ASSERT_TRUE(until([&] { return sheet.is_current(); }));
  drive("save", [&](ImGuiTestContext* ctx) {
    ctx->SetRef("//###figure");
    ctx->ItemClick("**/Save as PDF\u2026");
    ctx->Yield(3);
    ctx->SetRef("//$FOCUSED");
    ctx->ItemInput("##name");
    ctx->KeyCharsReplace((folder_ / "figure.pdf").c_str());
    ctx->ItemClick("Save");
    ctx->Yield(3);
  });
  EXPECT_TRUE(until([&] { return fs::exists(folder_ / "figure.pdf"); }))
      << explorer().messages().history().back();
  drive("close", [](ImGuiTestContext* ctx) {
    ctx->WindowFocus("//###figure");
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
  });
  EXPECT_FALSE(sheet.is_open());
  EXPECT_FALSE(selection().picture.head);
}

TEST_F(WindowStory, FromOnesOwnPromptToAFigureAndBackTheNextDay) {
  capture_own_prompt();
  if (HasFatalFailure()) return;
  find_why_it_was_lost();
  if (HasFatalFailure()) return;
  const std::int64_t enough = *loss_of(Slot::A).loss->sums().enough;
  save_picture("story_lost.png");

  go("kept");
  click(in("kv_map", "/show/both"));
  EXPECT_EQ(state::show_of(workspace(), "kv_map"), state::Show::Both);
  save_picture("story_both.png");
  drive("note", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_D);
    ctx->Yield(4);
    ctx->KeyChars("the window has dropped the number");
    ctx->Yield(2);
  });
  go("kept");
  export_figure();
  see_figure_before_it_is_written();
  const state::Place before = place();

  start_again();
  EXPECT_EQ(workspace().traces.ready()->path, output());
  EXPECT_EQ(selection().perspective, "kept");
  EXPECT_EQ(state::show_of(workspace(), "kv_map"), state::Show::Both);
  EXPECT_THAT(selection().choice(Slot::A).text, StartsWith("streaming_llm"));
  EXPECT_THAT(selection().choice(Slot::B).text, StartsWith("quoka"));
  EXPECT_EQ(place().chunk, before.chunk);
  EXPECT_EQ(place().layer, before.layer);
  ASSERT_TRUE(state::watched_keys(place()));
  EXPECT_EQ(state::watched_keys(place())->name, "number");
  const std::vector<shell::Note> notes = shell::load_notes(output());
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].text, "the window has dropped the number");
  save_picture("story_back.png");
  go("lost");
  ASSERT_TRUE(until([] { return is_explained(Slot::A); }));
  EXPECT_EQ(loss_of(Slot::A).loss->sums().enough, enough);
}

// What nobody arranged is laid out for the window that it is shown in, also where another one has kept it.
TEST_F(WindowStory, AnotherSizeAtTheNextStart) {
  const auto docks = [] { return explorer().panels().layout().docks; };
  open(test::write_gui_trace("sizes.h5"));
  explorer().run_command("layout.reset");
  std::vector<std::pair<std::string, shell::DockTree>> wide;
  for (const state::Perspective& one : state::perspectives()) {
    if (one.of_results) continue;
    workspace().cursor.set_perspective(one.id);
    settle();
    explorer().run_command("layout.reset");
    settle();
    wide.emplace_back(one.id, docks());
  }
  start_again(1000, 700);
  for (const auto& [id, of_it] : wide) {
    workspace().cursor.set_perspective(id);
    settle();
    EXPECT_TRUE(docks().sides.empty()) << id << ": no room beside or below the large view";
    save_picture("started small " + id + ".png");
  }
  start_again();
  for (const auto& [id, of_it] : wide) {
    workspace().cursor.set_perspective(id);
    settle();
    EXPECT_TRUE(shell::lie_alike(docks(), of_it)) << id;
  }
  // Results alone, too.
  close_all();
  test::open_results(workspace());
  settle();
  explorer().run_command("layout.reset");
  settle();
  ASSERT_FALSE(docks().sides.empty());
  start_again(1000, 700);
  EXPECT_TRUE(docks().sides.empty());
  save_picture("started small results.png");
}

}  // namespace
}  // namespace kvloupe
