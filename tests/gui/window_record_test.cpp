// A sample of real results is recorded from their list, by the package and a tiny model: to its trace, cancelled half way, and
// while other things are done.
#include "app/figure/headless.h"
#include "app/widgets/tooltip.h"
#include "core/base/whole_file.h"
#include "tests/base/temporary_folder.h"
#include "tests/gui/slowness.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <imgui_internal.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kSkipped = 77;

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Commands of all that this process has started, and those have.
std::vector<std::string> descendants() {
  std::vector<std::pair<int, int>> parents;  // of processes
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())) == 0)
      continue;
    const std::string stat = content(entry.path() / "stat");
    char state = ' ';
    int parent = 0;
    if (const auto name = stat.rfind(')');
        name != std::string::npos &&
        std::sscanf(stat.c_str() + name + 1, " %c %d", &state, &parent) == 2)
      parents.emplace_back(std::stoi(stat), parent);
  }
  std::vector<int> found{::getpid()};
  std::vector<std::string> commands;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto& [process, parent] : parents)
      if (parent == found[i]) {
        found.push_back(process);
        std::string words = content(fmt::format("/proc/{}/cmdline", process));
        std::replace(words.begin(), words.end(), '\0', ' ');
        commands.push_back(std::move(words));
      }
  return commands;
}

class WindowRecord : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    FILE* made =
        ::popen(("bash " KVLOUPE_TEST_SOURCE_DIR "/make_tiny_results.sh " KVLOUPE_PROGRAM " " +
                 folder_->path().string())
                    .c_str(),
                "r");
    std::array<char, 4096> buffer;
    while (std::fgets(buffer.data(), buffer.size(), made) != nullptr) told_ += buffer.data();
    made_ = WEXITSTATUS(::pclose(made));
    std::istringstream lines(told_);
    if (made_ == 0)
      for (std::string line; std::getline(lines, line);) {
        const auto equals = line.find('=');
        ::setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
      }
    WindowTest::SetUpTestSuite();
  }
  static void TearDownTestSuite() {
    WindowTest::TearDownTestSuite();
    folder_.reset();
  }

  void SetUp() override {
    if (made_ == kSkipped) GTEST_SKIP() << told_;
    ASSERT_EQ(made_, 0);
    ::setenv("KVLOUPE_PROGRAM", KVLOUPE_PROGRAM, 1);
    home_ = std::getenv("HF_HOME");
    close_all();
    path_ = copy_of_results();
    open_results(path_);
    before_ = content(path_);
    said_ = explorer().messages().history().size();
  }
  void TearDown() override {
    WindowTest::TearDown();
    if (made_ != 0) return;
    ::setenv("HF_HOME", home_.c_str(), 1);
    explorer().run_command("results.close");
    EXPECT_TRUE(ends());
    EXPECT_THAT(descendants(), IsEmpty());
    fs::remove(*folder_ / "go");
  }

  static fs::path copy_of_results() {
    static int count = 0;
    const fs::path copy = *folder_ / fmt::format("results{}.h5", ++count);
    fs::copy_file(*folder_ / "made.h5", copy);
    return copy;
  }
  // With the samples of quoka listed.
  static void open_results(const fs::path& path) {
    workspace().traces.open(path.string());
    settle();
    click("task_scores/$$1/##cell");
    ASSERT_EQ(results().sight.of_listed.size(), 32U);
  }
  static state::OpenResults& results() { return workspace().results; }
  static state::SampleRecording& recording() { return results().recording; }
  static void click(const std::string& item) {
    drive("click", [&](ImGuiTestContext* ctx) { ctx->ItemClick(in("task_scores", item).c_str()); });
    settle();
  }
  // Of what a script sees.
  static void picture(ImGuiTestContext* ctx, const char* file) {
    app->after_render = [file] { write_whole_file(file, figure::png_bytes(app->read_pixels())); };
    ctx->Yield(2);
    app->after_render = nullptr;
  }
  // In the popup of a sample that has no trace, which closes then.
  static void in_popup(const std::function<void(ImGuiTestContext*)>& steps,
                       const std::string& row = "**/Record...") {
    drive("popup", [&](ImGuiTestContext* ctx) {
      open_popup(ctx, in("task_scores", row));
      steps(ctx);
      ctx->KeyPress(ImGuiKey_Escape);
    });
  }
  static void press_record(ImGuiTestContext* ctx) {
    ctx->ItemClick("Record now");
    ctx->Yield(3);
  }
  static bool until(const std::function<bool()>& condition) {
    const auto end = Clock::now() + std::chrono::seconds(60 * test::kSlowness);
    while (!condition() && Clock::now() < end) frames(1);
    return condition();
  }
  static bool ends() {
    const bool ended = until([] { return !recording().running(); });
    settle();
    return ended;
  }
  // The program behind a script: before it records, it writes the beginning of a trace and waits for a file `go`.
  static void hold_recordings() {
    const fs::path script = *folder_ / "held";
    write_whole_file(script.string(), fmt::format(R"(#!/bin/sh
for word; do [ "$before" = -o ] && trace="$word"; before="$word"; done
case "$*" in capture*--force*)
  echo half >"$trace.part"
  while [ -e '{0}' ] && [ ! -e '{0}/go' ]; do sleep 0.02; done
esac
exec '{1}' "$@"
)",
                                                  folder_->path().string(), KVLOUPE_PROGRAM));
    fs::permissions(script, fs::perms::owner_all);
    ::setenv("KVLOUPE_PROGRAM", script.c_str(), 1);
  }
  static void go_on() { std::ofstream(*folder_ / "go"); }
  // Until the held program has begun to write.
  void record_half() {
    hold_recordings();
    in_popup(press_record);
    ASSERT_TRUE(recording().running());
    ASSERT_TRUE(until([&] {
      if (!recording().running()) return true;
      std::error_code none;
      for (const auto& file : fs::directory_iterator(traces(), none))
        if (file.path().extension() == ".part") return true;
      return false;
    }));
    ASSERT_TRUE(recording().running()) << said().back();
  }
  fs::path traces() const { return path_.string() + ".traces"; }
  std::vector<std::string> said() const {
    const auto& all = explorer().messages().history();
    return {all.begin() + static_cast<std::ptrdiff_t>(said_), all.end()};
  }
  // As before the recording: no trace, no journal, the same results.
  void expect_nothing_left() const {
    EXPECT_FALSE(fs::exists(traces()));
    EXPECT_FALSE(fs::exists(path_.string() + ".journal"));
    EXPECT_TRUE(content(path_) == before_);
    EXPECT_THAT(descendants(), IsEmpty());
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::string told_;
  static int made_;
  fs::path path_;
  std::string before_, home_;
  std::size_t said_ = 0;
};

std::unique_ptr<TemporaryFolder> WindowRecord::folder_;
std::string WindowRecord::told_;
int WindowRecord::made_ = -1;

TEST_F(WindowRecord, FromTheListToItsTrace) {
  const std::vector<std::int32_t> listed = results().sight.of_listed;
  ASSERT_TRUE(workspace().traces.tabs().empty());
  // The last row, which is scrolled to.
  ImGuiWindow* table = nullptr;
  for (ImGuiWindow* window : ImGui::GetCurrentContext()->Windows)
    if (window->WasActive && std::string(window->Name).find("##samples") != std::string::npos)
      table = window;
  ASSERT_NE(table, nullptr);
  ASSERT_GT(table->ScrollMax.y, 0);
  ImGui::SetScrollY(table, table->ScrollMax.y);
  frames(3);
  const float scroll = table->Scroll.y;
  in_popup(
      [](ImGuiTestContext* ctx) {
        picture(ctx, "asked.png");
        press_record(ctx);
        picture(ctx, "begun.png");
      },
      "**/$$31/Record...");
  ASSERT_TRUE(recording().is_of(path_.string(), results().ready()->sample(listed.back()).id));
  ASSERT_TRUE(until([] { return recording().words().ends_with("loading lm-evaluation-harness"); }));
  save_picture("recording.png");
  // Frames go on.
  double longest = 0;
  EXPECT_TRUE(until([&] {
    const auto begin = Clock::now();
    frames(1);
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - begin).count());
    return !recording().running();
  }));
  EXPECT_LT(longest, 1.0 * test::kSlowness);
  settle();
  save_picture("recorded.png");
  EXPECT_THAT(said(), ElementsAre(HasSubstr(".h5 is recorded: Why? beside the sample opens it.")));
  EXPECT_EQ(results().sight.of_listed, listed);
  EXPECT_EQ(table->Scroll.y, scroll);
  const trace::ResultSample& sample = results().ready()->sample(listed.back());
  ASSERT_THAT(sample.trace, StartsWith(path_.filename().string() + ".traces/"));
  click("**/Why?");
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(place().info().num_tokens, sample.prompt_tokens);
  EXPECT_THAT(workspace().method().text, StartsWith(sample.method));
}

TEST_F(WindowRecord, CancelledHalfWayNothingIsLeft) {
  record_half();
  EXPECT_THAT(descendants(), Not(IsEmpty()));
  // Its line may be read after the file has appeared.
  EXPECT_TRUE(until([] {
    return recording().words().find("recording 1 trace takes about") != std::string::npos;
  })) << recording().words();
  // Another sample waits: its button does nothing.
  in_popup([](ImGuiTestContext* ctx) {
    press_record(ctx);
    picture(ctx, "another.png");
  });
  drive("cancel", [](ImGuiTestContext* ctx) { ctx->ItemClick("//##status/Cancel##recording"); });
  EXPECT_TRUE(recording().ending());
  ASSERT_TRUE(ends());
  expect_nothing_left();
  EXPECT_THAT(said(), ElementsAre("The recording was cancelled; nothing of it is left."));
  // It can be tried again, and be cancelled where it was started.
  in_popup([](ImGuiTestContext* ctx) {
    press_record(ctx);
    ctx->ItemClick("Cancel");
  });
  ASSERT_TRUE(ends());
  expect_nothing_left();
}

TEST_F(WindowRecord, GoesOnWhileTheResultsAreReadAgainAndATraceIsOpened) {
  record_half();
  explorer().run_command("results.reload");
  settle();
  open(KVLOUPE_TEST_SOURCE_DIR "/../data/v1_tiny.h5");
  EXPECT_FALSE(recording().ending());
  go_on();
  ASSERT_TRUE(ends());
  EXPECT_THAT(said(), ElementsAre(HasSubstr("is recorded")));
  EXPECT_NE(content(path_), before_);
}

TEST_F(WindowRecord, EndsWhenOtherResultsAreOpened) {
  record_half();
  open_results(copy_of_results());
  EXPECT_TRUE(recording().ending());
  ASSERT_TRUE(ends());
  expect_nothing_left();
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(WindowRecord, TheResultsAreGoneMeanwhile) {
  record_half();
  fs::remove(path_);
  go_on();
  ASSERT_TRUE(ends());
  EXPECT_THAT(said(), ElementsAre(HasSubstr("is recorded")));
  EXPECT_EQ(results().ready()->file.samples.size(), 64U)
      << "they were written anew, with all samples";
}

TEST_F(WindowRecord, TheResultsWereGoneBefore) {
  fs::remove(path_);
  in_popup(press_record);
  ASSERT_TRUE(ends());
  save_picture("failed.png");
  EXPECT_THAT(
      said(),
      ElementsAre(testing::AllOf(StartsWith("The sample was not recorded: " + path_.string() +
                                            " cannot be read; it does not exist; "))));
  EXPECT_THAT(recording().problem_of(
                  path_.string(), results().ready()->sample(results().sight.of_listed.front()).id),
              HasSubstr("it does not exist"));
  in_popup([](ImGuiTestContext* ctx) { picture(ctx, "failed_again.png"); });
  EXPECT_NE(results().ready(), nullptr);
}

TEST_F(WindowRecord, AModelThatIsNotListedIsNamed) {
  const std::string home = home_;
  ::setenv("HF_HOME", (*folder_ / "elsewhere").c_str(), 1);
  in_popup(press_record);
  ASSERT_TRUE(ends());
  EXPECT_THAT(said(), ElementsAre(HasSubstr("name its file or folder by --model")));
  const std::string model =
      home + "/hub/models--tiny--llama/snapshots/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  std::string copied;
  in_popup([&](ImGuiTestContext* ctx) {
    ctx->ItemInputValue("**/model", model.c_str());
    picture(ctx, "named.png");
    ctx->ItemClick("Copy the command");
    copied = ImGui::GetClipboardText();
    press_record(ctx);
  });
  ASSERT_TRUE(ends());
  EXPECT_THAT(copied, ::testing::EndsWith(" --model=" + model));
  EXPECT_THAT(said().back(), HasSubstr("is recorded"));
}

TEST_F(WindowRecord, TheWindowAsksBeforeItIsClosed) {
  record_half();
  explorer().run_command("quit");
  frames(3);
  EXPECT_FALSE(explorer().wants_quit());
  save_picture("closing.png");
  drive("stay", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_Escape); });
  EXPECT_FALSE(recording().ending());
  explorer().run_command("results.close");
  EXPECT_TRUE(recording().ending());
  ASSERT_TRUE(ends());
  expect_nothing_left();
}

TEST_F(WindowRecord, WithoutPythonTheCommandIsLeft) {
  const std::string python = std::getenv("KVLOUPE_PYTHON");
  ::setenv("KVLOUPE_PYTHON", "/nowhere/python3", 1);
  std::string why, copied;
  in_popup([&](ImGuiTestContext* ctx) {
    press_record(ctx);
    ctx->SleepNoSkip(0.6F, 1.0F / 30);
    why = widgets::tooltip_words();
    picture(ctx, "without_python.png");
    ctx->ItemClick("Copy the command");
    copied = ImGui::GetClipboardText();
  });
  ::setenv("KVLOUPE_PYTHON", python.c_str(), 1);
  EXPECT_THAT(why, HasSubstr("there is no program /nowhere/python3; install python3"));
  EXPECT_THAT(copied, StartsWith("python -m kvloupe eval record " + path_.string()));
  EXPECT_FALSE(recording().running());
  EXPECT_THAT(said(), IsEmpty());
}

}  // namespace
}  // namespace kvloupe
