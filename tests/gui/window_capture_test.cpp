// New capture, by mouse and keyboard: from the start screen to the trace on screen, and what goes wrong.
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/capture/tiny_llama.h"
#include "tests/gui/slowness.h"
#include "tests/gui/window_fixture.h"

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using shell::CaptureStage;
using shell::PromptKind;

std::string item(const std::string& name) { return "//###capture/**/" + name; }

// The program behind a script that tells its process, so that a test can hold it.
class Pausable {
 public:
  explicit Pausable(const TemporaryFolder& folder)
      : path_((folder / "held").string()), process_file_((folder / "process").string()) {
    std::ofstream(path_) << "#!/bin/sh\necho $$ >'" << process_file_ << "'\nexec '"
                         << KVLOUPE_PROGRAM << "' \"$@\"\n";
    fs::permissions(path_, fs::perms::owner_all);
  }
  ~Pausable() { signal(SIGCONT); }
  Pausable(const Pausable&) = delete;
  Pausable& operator=(const Pausable&) = delete;

  const std::string& path() const { return path_; }
  void pause() const { signal(SIGSTOP); }
  void go_on() const { signal(SIGCONT); }

 private:
  void signal(int number) const {
    pid_t process = 0;
    if (std::ifstream(process_file_) >> process && process > 0) kill(process, number);
  }
  std::string path_, process_file_;
};

class WindowCapture : public test::WindowTest {
 protected:
  void SetUp() override {
    close_all();
    folder_ = std::make_unique<TemporaryFolder>();
    capture::TinyLlama tiny;
    tiny.context_length = 8192;
    model_ = (*folder_ / "tiny.gguf").string();
    tiny.build().write(model_);
    use(KVLOUPE_PROGRAM);
    window().form().request() = {};
  }
  void TearDown() override {
    WindowTest::TearDown();
    window().run().cancel();
    window().run().cancel();
    EXPECT_TRUE(until([] { return !window().run().running(); }));
    window().close();
    frames(2);
  }

  static shell::CaptureWindow& window() { return explorer().capture(); }
  static void use(const std::string& program) {
    window().run().program = program;
    window().estimator().program = program;
  }
  static bool until(const std::function<bool()>& condition, int seconds = 60) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(seconds * test::kSlowness);
    while (!condition() && std::chrono::steady_clock::now() < end) frames(1);
    return condition();
  }
  // Held before its end, which may come before a busy machine has opened the file. Held in the
  // middle of a write it leaves a file that no reader opens, so that it goes on for a moment.
  static bool has_trace_of(const Pausable& program) {
    const auto has_trace = [] { return workspace().has_trace(); };
    for (int tries = 0; tries < 6; ++tries) {
      program.pause();
      if (until(has_trace, 10)) return true;
      program.go_on();
      frames(2);
    }
    return has_trace();
  }
  std::string output() const { return (*folder_ / "own.h5").string(); }

  // What is common to the captures that are not typed.
  void describe(const std::string& text) {
    explorer().run_command("capture");
    shell::CaptureRequest& request = window().form().request();
    request.model = model_;
    request.text = text;
    request.output = output();
  }
  // Some seconds of work.
  void describe_many_chunks() {
    std::string text;
    for (int i = 0; i < 1600; ++i) text += " word";
    describe(text);
    window().form().request().chunk_size = 1;
    window().form().request().raw = true;
    frames(2);
  }
  static void click(const std::string& ref) {
    drive("click", [&](ImGuiTestContext* ctx) { ctx->ItemClick(ref.c_str()); });
  }
  static void start() { click(item("###start")); }
  static void add_method(ImGuiTestContext* ctx, const char* words) {
    open_popup(ctx, item("Add a method"));
    ctx->ItemClick("##method");
    ctx->Yield(3);
    ctx->KeyChars(words);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
  }

  std::unique_ptr<TemporaryFolder> folder_;
  std::string model_;
};

TEST_F(WindowCapture, FromTheStartScreenToTheTrace) {
  drive("describe", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick("//Welcome/New capture\u2026");
    ctx->Yield(4);
    ctx->ItemInputValue(item("##model").c_str(), model_.c_str());
    ctx->ItemClick(item("##prompt").c_str());
    ctx->KeyChars("The magic number of today is 3968761");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_LeftArrow);
    ctx->Yield(2);
    ctx->ItemClick(item("##span name").c_str());
    ctx->KeyChars("number");
    ctx->Yield(2);
    ctx->ItemClick(item("Add span").c_str());
    add_method(ctx, "quoka");
    add_method(ctx, "streaming");
    ctx->ItemInputValue(item("tokens of a chunk").c_str(), 16);
    ctx->ItemInputValue(item("new tokens").c_str(), 3);
    ctx->ItemInputValue(item("##output").c_str(), output().c_str());
  });
  const shell::CaptureRequest& request = window().form().request();
  ASSERT_THAT(request.spans, SizeIs(1));
  EXPECT_EQ(request.spans[0].text, "3968761");
  ASSERT_THAT(request.methods, SizeIs(2));
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }))
      << window().estimator().problem() << window().obstacle();
  EXPECT_EQ(window().estimator().cost()->model_layers, 2);
  const auto& spans = window().estimator().cost()->spans;
  EXPECT_TRUE(
      std::any_of(spans.begin(), spans.end(), [](const auto& s) { return s.name == "number"; }));
  start();
  ASSERT_TRUE(until([] { return window().run().stage() == CaptureStage::Done; }))
      << window().run().message();
  ASSERT_TRUE(until(
      [&] { return workspace().has_trace() && workspace().traces.ready()->path == output(); }));
  settle();
  EXPECT_FALSE(window().is_open());
  const trace::TraceInfo& info = place().info();
  ASSERT_THAT(info.runs, SizeIs(2));
  EXPECT_THAT(info.runs[0].method, HasSubstr("quoka"));
  EXPECT_THAT(info.runs[1].method, HasSubstr("streaming_llm"));
  EXPECT_TRUE(std::any_of(info.spans.begin(), info.spans.end(),
                          [](const trace::TokenSpan& span) { return span.name == "number"; }));
  EXPECT_EQ(info.chunks.front().length, 16);
  EXPECT_EQ(info.chunks.back().phase, trace::Phase::Decode);
  // What was named in the prompt is watched.
  EXPECT_EQ(state::watched_words(place()), "\u201Cnumber\u201D");
  EXPECT_FALSE(fs::exists(output() + ".part"));
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("own.h5"));

  std::int64_t prompt = 0;
  for (const trace::ChunkInfo& chunk : info.chunks)
    if (chunk.phase == trace::Phase::Prefill) prompt += chunk.length;

  // A capture of its drift begins with the same prompt, as it stands, and a longer answer.
  window().form().request() = {};
  workspace().wanted_command = "capture.drift";
  settle();
  EXPECT_THAT(request.text, HasSubstr("The magic number of today is 3968761"));
  EXPECT_TRUE(request.raw);
  EXPECT_GT(request.max_new_tokens, 3);
  window().form().request().model = model_;
  frames(2);
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }))
      << window().estimator().problem() << window().obstacle();
  EXPECT_EQ(window().estimator().cost()->tokens, prompt + request.max_new_tokens - 1)
      << "its markers are tokens again";
  click(item("the model's chat template around it"));
  EXPECT_FALSE(request.raw || request.special);
}

TEST_F(WindowCapture, AViewWithoutDriftOffersToCaptureOne) {
  workspace().wanted_command = "capture.drift";
  settle();
  EXPECT_TRUE(window().is_open());
  EXPECT_TRUE(window().form().request().drift);
  EXPECT_THAT(window().form().request().closed_loop, HasSubstr("quoka"));
  click(item("the model attends only to what a method keeps"));  // what is described stays
  EXPECT_FALSE(window().form().request().drift);
}

TEST_F(WindowCapture, StartSaysWhatIsMissing) {
  explorer().run_command("capture");
  window().form().request().model = model_;
  window().form().request().output = output();
  settle();
  EXPECT_THAT(window().obstacle(), HasSubstr("no prompt"));
  start();
  EXPECT_FALSE(window().running());
}

TEST_F(WindowCapture, AWrongModelIsSaidBeforeItStarts) {
  describe("A prompt.");
  window().form().request().model = (*folder_ / "none.gguf").string();
  ASSERT_TRUE(until([] { return !window().estimator().problem().empty(); }));
  EXPECT_THAT(window().obstacle(), AllOf(HasSubstr("none.gguf"), Not(HasSubstr("error:"))));
  start();
  EXPECT_FALSE(window().run().running());
  EXPECT_FALSE(fs::exists(output() + ".part"));
  // The right one can be started.
  window().form().request().model = model_;
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }));
  EXPECT_EQ(window().obstacle(), "");
}

TEST_F(WindowCapture, AModelInPartsIsAsLargeAsAllOfThem) {
  const std::string first = (*folder_ / "big-00001-of-00002.gguf").string();
  std::ofstream(first) << "some";
  std::ofstream(*folder_ / "big-00002-of-00002.gguf") << "bytes";
  window().form().request().model = first;
  EXPECT_EQ(window().form().model_bytes(), 9U);
}

TEST_F(WindowCapture, APlaceThatCannotBeWrittenIsSaidBeforeItStarts) {
  const fs::path none = *folder_ / "none", link = *folder_ / "link.h5";
  fs::create_symlink("/proc/own.h5", link);
  for (const auto& [place, said] :
       {std::pair<std::string, std::string>{"/proc/own.h5", "free in /proc"},
        {link.string(), "free in /proc"},
        {(none / "t.h5").string(), none.string()},
        {model_, model_}}) {
    describe("A prompt.");
    window().form().request().output = place;
    frames(2);
    ASSERT_TRUE(until([] { return !window().estimator().problem().empty(); })) << place;
    EXPECT_THAT(window().obstacle(), HasSubstr(said));
  }
}

TEST_F(WindowCapture, WhatWasCuredElsewhereIsAskedForAgain) {
  const fs::path place = *folder_ / "later";
  describe("A prompt.");
  window().form().request().output = (place / "own.h5").string();
  ASSERT_TRUE(until([] { return !window().estimator().problem().empty(); }));
  fs::create_directory(place);
  frames(2);
  click(item("Ask again"));
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }))
      << window().estimator().problem();
  EXPECT_EQ(window().obstacle(), "");
}

// A sanitized program takes no library before its own.
#ifdef KVLOUPE_FAULT_SHIM
TEST_F(WindowCapture, AFullDiskEndsItWithItsSentence) {
  const std::string program = (*folder_ / "full_disk").string();
  std::ofstream(program) << "#!/bin/sh\nexport LD_PRELOAD='" << KVLOUPE_FAULT_SHIM
                         << "' KVLOUPE_FAULT=write:20 KVLOUPE_FAULT_FOLDER='"
                         << folder_->path().string() << "'\nexec '" << KVLOUPE_PROGRAM
                         << "' \"$@\"\n";
  fs::permissions(program, fs::perms::owner_all);
  describe("A prompt of some words, in chunks.");
  window().form().request().chunk_size = 4;
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }));
  use(program);
  start();
  ASSERT_TRUE(until([] { return window().run().stage() == CaptureStage::Failed; }))
      << window().run().message();
  EXPECT_THAT(window().run().message(), HasSubstr("No space left"));
  EXPECT_TRUE(window().is_open()) << "what was described is still there";
  EXPECT_FALSE(fs::exists(output()));
  EXPECT_EQ(explorer().messages().history().back(), window().run().message());
}
#endif

TEST_F(WindowCapture, TheTraceGrows) {
  describe_many_chunks();
  ASSERT_TRUE(until([] { return window().estimator().cost().has_value(); }));
  const Pausable program(*folder_);
  window().run().program = program.path();
  start();
  ASSERT_TRUE(until([] { return window().run().chunks() > 0; })) << window().run().message();
  ASSERT_TRUE(has_trace_of(program)) << window().run().message();
  EXPECT_THAT(workspace().traces.ready()->path, EndsWith("own.h5.part"));
  EXPECT_FALSE(window().is_open()) << "the trace is to be seen";
  const std::size_t first = place().info().chunks.size();
  EXPECT_EQ(place().chunk + 1, static_cast<int>(first));
  program.go_on();
  ASSERT_TRUE(until([&] { return place().info().chunks.size() > first; }))
      << window().run().chunks() << " chunks are done, " << first << " are shown";
  EXPECT_EQ(place().chunk + 1, static_cast<int>(place().info().chunks.size()))
      << "who stands at the end goes with it";
  workspace().cursor.set_chunk(0);
  ASSERT_TRUE(until([] { return !window().running(); }));
  settle();
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(workspace().traces.ready()->path, output());
  EXPECT_THAT(workspace().traces.tabs(), SizeIs(1));
  EXPECT_EQ(place().chunk, 0) << "who looks at another chunk stays there";
  EXPECT_EQ(static_cast<int>(place().info().chunks.size()), window().run().of_chunks());
  EXPECT_FALSE(fs::exists(output() + ".part"));
}

// As a short capture may.
TEST_F(WindowCapture, ATraceThatIsDoneWhileItOpensHasOneTab) {
  settle();
  const std::string part = output() + ".part";
  fs::copy_file(KVLOUPE_TEST_SOURCE_DIR "/../data/v1_tiny.h5", part);
  shell::GrowingTrace growing(workspace());
  growing.begin(output(), "");
  growing.tick(1);
  ASSERT_TRUE(until([&] { return workspace().traces.find(part) != nullptr; }));
  EXPECT_FALSE(growing.opened());
  fs::rename(part, output());
  growing.end(true);
  settle();
  ASSERT_THAT(workspace().traces.tabs(), SizeIs(1));
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(workspace().traces.ready()->path, output());
}

TEST_F(WindowCapture, ATraceWhoseTabWasClosedIsAmongTheRecentOnes) {
  describe_many_chunks();
  const Pausable program(*folder_);
  window().run().program = program.path();
  window().start();
  ASSERT_TRUE(until([] { return window().run().chunks() > 0; })) << window().run().message();
  ASSERT_TRUE(has_trace_of(program)) << window().run().message();
  close_all();
  program.go_on();
  ASSERT_TRUE(until([] { return !window().running(); }));
  ASSERT_TRUE(window().run().left_trace()) << window().run().message();
  EXPECT_THAT(workspace().traces.tabs(), IsEmpty());
  EXPECT_EQ(shell::load_recent_files().front(), output());
}

TEST_F(WindowCapture, ACancelKeepsTheChunksDone) {
  describe_many_chunks();
  start();
  ASSERT_TRUE(until([] { return window().run().chunks() > 0; })) << window().run().message();
  click("//##status/Cancel##capture");
  ASSERT_TRUE(until([] { return window().run().stage() == CaptureStage::Stopped; }))
      << window().run().message();
  ASSERT_TRUE(until(
      [&] { return workspace().has_trace() && workspace().traces.ready()->path == output(); }));
  settle();
  const auto shown = static_cast<int>(place().info().chunks.size());
  EXPECT_EQ(shown, window().run().chunks());
  EXPECT_LT(shown, window().run().of_chunks());
  EXPECT_FALSE(fs::exists(output() + ".part"));
  EXPECT_THAT(explorer().messages().history().back(), HasSubstr("stopped"));
}

TEST_F(WindowCapture, CancelledAtOnceNothingIsLeft) {
  describe("A prompt.");
  window().start();
  frames(1);
  ASSERT_TRUE(window().running());
  click(item("###cancel"));
  ASSERT_TRUE(until([] { return !window().run().running(); }));
  if (window().run().stage() == CaptureStage::Done) GTEST_SKIP() << "it was done sooner";
  if (window().run().left_trace()) return;
  EXPECT_THAT(window().run().message(), HasSubstr("nothing is left"));
  EXPECT_FALSE(fs::exists(output()));
  EXPECT_FALSE(fs::exists(output() + ".part"));
}

TEST_F(WindowCapture, DroppedFilesGoWhereTheyBelong) {
  const std::string folder = std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../data/models/qwen3";
  const auto drop = [](const std::string& path) {
    explorer().take_dropped({path});
    settle();
  };
  drop(folder);
  settle();
  ASSERT_TRUE(window().is_open()) << "a model begins a capture";
  EXPECT_EQ(window().form().request().model, folder);
  const std::string notes = (*folder_ / "notes.txt").string(),
                    chat = (*folder_ / "c.json").string();
  std::ofstream(notes) << "Some notes.";
  drop(notes);
  EXPECT_EQ(window().form().request().kind, PromptKind::TextFile);
  EXPECT_EQ(window().form().request().file, notes);
  settle();
  click(item("Take its text into the window"));
  EXPECT_EQ(window().form().request().kind, PromptKind::Text);
  EXPECT_EQ(window().form().request().text, "Some notes.");
  std::ofstream(chat) << "[]";
  drop(chat);
  EXPECT_EQ(window().form().request().kind, PromptKind::ChatFile);
  EXPECT_THAT(workspace().traces.tabs(), IsEmpty());
  drop(test::write_gui_trace("dropped.h5"));
  EXPECT_TRUE(workspace().has_trace());
  const std::string text = (*folder_ / "text.md").string(), tour = (*folder_ / "tour.md").string();
  std::ofstream(text) << "---\ntitle: Notes\n---\nIn Markdown.";
  drop(text);
  EXPECT_FALSE(explorer().tour().is_open());
  EXPECT_EQ(window().form().request().file, text) << "a prompt, as any other text";
  std::ofstream(tour) << "---\ntitle: T\ntrace: " << workspace().traces.ready()->path
                      << "\n---\n# One\nText.\n";
  drop(tour);
  EXPECT_TRUE(explorer().tour().is_open());
  explorer().tour().close();
  EXPECT_EQ(window().form().request().file, text);
}

TEST_F(WindowCapture, ATaskByItsControlsAndTheCopiedCommand) {
  explorer().run_command("capture");
  window().form().request().model = model_;
  window().form().request().output = output();
  settle();
  click(item("Task"));
  settle();
  EXPECT_EQ(window().form().request().task, "niah");
  drive("length", [](ImGuiTestContext* ctx) {
    ctx->ItemInputValue(item("length").c_str(), 512);
    ctx->ItemInputValue(item("depth").c_str(), "0.25");
  });
  EXPECT_THAT(window().form().request().task,
              AllOf(HasSubstr("length=512"), HasSubstr("depth=0.25")));
  click(item("the model attends only to what a method keeps"));
  EXPECT_THAT(window().form().request().closed_loop, HasSubstr("quoka"));
  click(item("drift"));
  std::string command;
  drive("copy", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick(item("Copy the command").c_str());
    const char* text = ImGui::GetClipboardText();
    if (text != nullptr) command = text;
  });
  EXPECT_THAT(command,
              AllOf(HasSubstr("kvloupe capture --model "), HasSubstr("--task niah:length=512"),
                    HasSubstr("--closed-loop quoka"), HasSubstr("--drift"), HasSubstr(output())));
}

}  // namespace
}  // namespace kvloupe
