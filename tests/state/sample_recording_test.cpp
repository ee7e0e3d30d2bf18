// A sample that is recorded in the background, by scripts in place of Python: what is told of it, how it ends, and what stays.
#include "app/state/sample_recording.h"

#include "app/state/questions/results/lost_answer.h"
#include "app/state/workspace.h"
#include "tests/base/temporary_folder.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/slowness.h"
#include "tests/gui/workspace_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe::state {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Says that it goes on until a file `go` lies in its folder, or a failed test took the folder away; the Ctrl+C
// that ends it is noted there.
constexpr const char* kWaits = R"(
trap 'touch "$folder/interrupted"; exit 130' INT
echo $$ >"$folder/process"
echo 'going on' >&2
while [ -d "$folder" ] && [ ! -e "$folder/go" ]; do sleep 0.01; done
echo "$folder/one.h5"
)";

class SampleRecordingTest : public ::testing::Test {
 protected:
  ~SampleRecordingTest() override { ::unsetenv("KVLOUPE_PYTHON"); }

  void use(const std::string& script) const {
    const std::string path = (folder_ / "python").string();
    std::ofstream(path) << "#!/bin/sh\nfolder='" << folder_.path().string()
                        << "'\necho \"$*\" >\"$folder/told\"\n"
                        << script;
    fs::permissions(path, fs::perms::owner_all);
    ::setenv("KVLOUPE_PYTHON", path.c_str(), 1);
  }
  static bool until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + 20s * test::kSlowness;
    bool met = condition();  // which may be so once
    for (; !met && std::chrono::steady_clock::now() < end; met = condition())
      std::this_thread::sleep_for(1ms);
    return met;
  }
  SampleRecording::Outcome outcome() {
    std::optional<SampleRecording::Outcome> found;
    EXPECT_TRUE(until([&] { return (found = recording_.poll()).has_value(); }));
    return found.value_or(SampleRecording::Outcome());
  }
  bool going_on() {
    return until([&] {
      recording_.poll();
      return recording_.words().ends_with("so far: going on");
    });
  }
  void go_on() const { std::ofstream(folder_ / "go").flush(); }
  bool is_there(const char* name) const { return fs::exists(folder_ / name); }
  // Of one that is not waited for.
  bool lives() const {
    pid_t process = 0;
    return std::ifstream(folder_ / "process") >> process && ::kill(process, 0) == 0;
  }
  std::string told() const {
    std::string line;
    std::getline(std::ifstream(folder_ / "told") >> std::ws, line);
    return line;
  }

  TemporaryFolder folder_;
  SampleRecording recording_;
};

TEST_F(SampleRecordingTest, WhatItNeedsMayLieElsewhere) {
  use("exit 0");
  recording_.start("/r/results.h5", "abc", {"m.gguf", "/own tasks", "", "cuda:0"});
  outcome();
  EXPECT_EQ(told(),
            "-m kvloupe eval record /r/results.h5 abc --model=m.gguf --include-path=/own tasks "
            "--device=cuda:0 --end-with-parent");
  ReadResults results;
  results.file.path = "/r/results.h5";
  trace::ResultSample sample;
  sample.id = "abc";
  EXPECT_EQ(
      record_command(results, sample, {"", "/own tasks", "/d", ""}),
      "python -m kvloupe eval record /r/results.h5 abc '--include-path=/own tasks' --data=/d");
}

TEST_F(SampleRecordingTest, TellsItsTrace) {
  use(kWaits);
  recording_.start("/r/results.h5", "abc");
  EXPECT_TRUE(recording_.is_of("/r/results.h5", "abc"));
  EXPECT_FALSE(recording_.is_of("/r/results.h5", "abd"));
  EXPECT_FALSE(recording_.is_of("/r/other.h5", "abc"));
  ASSERT_TRUE(going_on()) << recording_.words();
  EXPECT_THAT(recording_.words(), ::testing::MatchesRegex("Recording, [0-9]+ s so far: going on"));
  EXPECT_EQ(told(), "-m kvloupe eval record /r/results.h5 abc --end-with-parent");
  go_on();
  const SampleRecording::Outcome got = outcome();
  EXPECT_EQ(got.results, "/r/results.h5");
  EXPECT_EQ(got.trace, (folder_ / "one.h5").string());
  EXPECT_EQ(got.problem, "");
  EXPECT_FALSE(recording_.running());
  EXPECT_FALSE(recording_.poll().has_value()) << "it is told once";
}

TEST_F(SampleRecordingTest, OneAtATime) {
  use(kWaits);
  recording_.start("/r/results.h5", "abc");
  ASSERT_TRUE(going_on());
  recording_.start("/r/results.h5", "def");
  EXPECT_TRUE(recording_.is_of("/r/results.h5", "abc"));
  recording_.cancel();
  EXPECT_EQ(recording_.words(), "Ending the recording");
  const SampleRecording::Outcome got = outcome();
  EXPECT_EQ(got.trace + got.problem, "");
  EXPECT_TRUE(is_there("interrupted"));
  EXPECT_FALSE(lives());
  recording_.cancel();  // nothing runs
  fs::remove(folder_ / "interrupted");
  recording_.start("/r/results.h5", "def");
  EXPECT_FALSE(recording_.ending());
  ASSERT_TRUE(going_on());
}

// A window that is started in the background of a script ignores Ctrl+C, and so would all that it starts.
TEST_F(SampleRecordingTest, IsCancelledWhereCtrlCIsIgnored) {
  use(kWaits);
  const auto before = ::signal(SIGINT, SIG_IGN);
  recording_.start("/r/results.h5", "abc");
  ASSERT_TRUE(going_on());
  recording_.cancel();
  outcome();
  EXPECT_TRUE(is_there("interrupted"));
  go_on();  // else nothing would end it
  ::signal(SIGINT, before);
}

TEST_F(SampleRecordingTest, EndsWithTheWindow) {
  use(kWaits);
  {
    SampleRecording other;
    other.start("/r/results.h5", "abc");
    ASSERT_TRUE(until([&] { return is_there("process"); }));
  }
  EXPECT_TRUE(until([&] { return is_there("interrupted"); }));
}

TEST_F(SampleRecordingTest, OneThatEndsBeforeItIsCancelledIsThere) {
  use("trap '' INT\n" + std::string(kWaits).substr(std::string(kWaits).find("echo $$")));
  recording_.start("/r/results.h5", "abc");
  ASSERT_TRUE(going_on());
  recording_.cancel();
  go_on();
  EXPECT_EQ(outcome().trace, (folder_ / "one.h5").string());
}

TEST_F(SampleRecordingTest, SaysWhyItFailed) {
  use("echo 'loading' >&2; echo 'error: no model; none is listed; name one by --model' >&2; exit "
      "1");
  recording_.start("/r/results.h5", "abc");
  EXPECT_EQ(outcome().problem, "no model; none is listed; name one by --model");
  EXPECT_EQ(recording_.problem_of("/r/results.h5", "abc"),
            "no model; none is listed; name one by --model");
  EXPECT_EQ(recording_.problem_of("/r/results.h5", "def"), "") << "another sample";
  EXPECT_EQ(recording_.problem_of("/r/other.h5", "abc"), "");
  use("echo \"ModuleNotFoundError: No module named 'h5py'\" >&2; exit 1");
  recording_.start("/r/results.h5", "abc");
  EXPECT_THAT(outcome().problem, HasSubstr("cannot run KVLoupe's package; ModuleNotFoundError: No "
                                           "module named 'h5py'; pip install"));
  use("kill -9 $$");
  recording_.start("/r/results.h5", "abc");
  EXPECT_THAT(outcome().problem, HasSubstr("the command ended without a message"));
}

TEST_F(SampleRecordingTest, LooksForPythonFirst) {
  use(kWaits);
  recording_.look_for_python();
  EXPECT_EQ(recording_.obstacle(), "");
  ::setenv("KVLOUPE_PYTHON", "/nowhere/python3", 1);
  recording_.look_for_python();
  EXPECT_EQ(recording_.obstacle(),
            "Python is not here; there is no program /nowhere/python3; install python3, or name "
            "one by KVLOUPE_PYTHON");
  ::setenv("KVLOUPE_PYTHON", "no-such-python", 1);  // on the path
  recording_.look_for_python();
  EXPECT_THAT(recording_.obstacle(), HasSubstr("there is no program no-such-python"));
  ::setenv("KVLOUPE_PYTHON", folder_.path().c_str(), 1);
  recording_.look_for_python();
  EXPECT_THAT(recording_.obstacle(), HasSubstr("there is no program")) << "it is a folder";
  ::setenv("KVLOUPE_PYTHON", "sh", 1);
  recording_.look_for_python();
  EXPECT_EQ(recording_.obstacle(), "");
}

// The same, of the file that is open.
class ResultsRecording : public SampleRecordingTest {
 protected:
  void SetUp() override {
    path_ = copy_of_results("needles.h5");
    workspace_.results.on_message = [this](const std::string& text, bool) {
      said_.push_back(text);
    };
    workspace_.results.open(path_);
    test::settle(workspace_);
    ASSERT_NE(workspace_.results.ready(), nullptr);
    use(kWaits);
  }
  std::string copy_of_results(const std::string& name) const {
    fs::copy_file(test::results_file(), folder_ / name);
    return (folder_ / name).string();
  }
  void record() {
    workspace_.results.record(workspace_.results.ready()->sample(0).id);
    ASSERT_TRUE(until([&] { return is_there("process"); }));
  }
  bool ends() {
    const bool ended = until([&] {
      workspace_.begin_frame();
      return !workspace_.results.recording.running();
    });
    test::settle(workspace_);
    return ended;
  }

  Workspace workspace_;
  std::string path_;
  std::vector<std::string> said_;
};

TEST_F(ResultsRecording, TheFileIsReadAgainAndKeepsItsList) {
  ResultsSight& sight = workspace_.results.sight;
  sight.listed = "a cell";
  sight.of_listed = {0, 1, 2};
  const int before = workspace_.results.ready()->id;
  record();
  // By hand, meanwhile.
  workspace_.results.open(path_);
  test::settle(workspace_);
  EXPECT_TRUE(workspace_.results.recording.running());
  EXPECT_FALSE(workspace_.results.recording.ending());
  go_on();
  ASSERT_TRUE(ends());
  EXPECT_EQ(workspace_.results.ready()->id, before + 2);
  EXPECT_EQ(sight.listed, "a cell");
  EXPECT_THAT(sight.of_listed, ElementsAre(0, 1, 2));
  EXPECT_THAT(said_, ElementsAre("one.h5 is recorded: Why? beside the sample opens it."));
}

TEST_F(ResultsRecording, AnotherFileEndsIt) {
  record();
  workspace_.results.open(copy_of_results("other.h5"));
  test::settle(workspace_);
  EXPECT_TRUE(workspace_.results.recording.ending());
  ASSERT_TRUE(ends());
  EXPECT_TRUE(is_there("interrupted"));
  EXPECT_THAT(said_, IsEmpty());
}

// Its file is not opened again over the one that was asked for since.
TEST_F(ResultsRecording, OneThatEndsWhileAnotherFileIsReadChangesNothing) {
  record();
  const std::string other = copy_of_results("other.h5");
  workspace_.results.open(other);
  go_on();
  ASSERT_TRUE(until([&] {
    workspace_.results.begin_frame();  // what was read is not taken yet
    return !workspace_.results.recording.running();
  }));
  EXPECT_EQ(workspace_.results.path(), other);
  test::settle(workspace_);
  EXPECT_EQ(workspace_.results.ready()->file.path, other);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(ResultsRecording, AFileThatCannotBeOpenedDoesNotEndIt) {
  record();
  workspace_.results.open((folder_ / "none.h5").string());
  test::settle(workspace_);
  EXPECT_FALSE(workspace_.results.recording.ending());
  EXPECT_EQ(workspace_.results.path(), path_);
  go_on();
  ASSERT_TRUE(ends());
  EXPECT_EQ(workspace_.results.path(), path_);
  EXPECT_EQ(said_.back(), "one.h5 is recorded: Why? beside the sample opens it.");
}

TEST_F(ResultsRecording, ClosingTheFileEndsIt) {
  record();
  workspace_.results.close();
  ASSERT_TRUE(ends());
  EXPECT_TRUE(is_there("interrupted"));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(ResultsRecording, WhatEndsItIsSaid) {
  record();
  workspace_.results.recording.cancel();
  ASSERT_TRUE(ends());
  use("echo 'error: a; b; c' >&2; exit 1");
  workspace_.results.record("x");
  ASSERT_TRUE(ends());
  EXPECT_THAT(said_, ElementsAre("The recording was cancelled; nothing of it is left.",
                                 "The sample was not recorded: a; b; c"));
}

}  // namespace
}  // namespace kvloupe::state
