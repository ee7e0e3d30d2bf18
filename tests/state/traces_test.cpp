// Opening, closing and reading traces anew; several of them beside each other.
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

namespace kvloupe {
namespace {

using state::ResultState;
using state::Slot;

class Traces : public test::WorkspaceTest {};

TEST_F(Traces, OpenOnTheLastPrefillChunkWithTheFirstTwoRuns) {
  open();
  EXPECT_EQ(place().chunk, 7);
  EXPECT_EQ(place().layer, 1);
  EXPECT_EQ(workspace.method(Slot::A).run, 0);
  EXPECT_EQ(workspace.method(Slot::B).run, 1);
  EXPECT_EQ(state::watched_keys(place())->name, "needle");
}

TEST_F(Traces, DecodeStepsAreNotWhereATraceOpens) {
  test::GuiTraceOptions options = whole_options();
  options.decoded = 4;
  options.runs.clear();
  open(test::write_gui_trace("decoded.h5", options));
  EXPECT_EQ(place().info().chunks.size(), 12U);
  EXPECT_EQ(place().chunk, 7);
  EXPECT_EQ(workspace.method(Slot::A).text.substr(0, 23), "quoka:budget_tokens=125");
  EXPECT_EQ(workspace.method(Slot::B).id(), "oracle");
  const auto map = answer_to(state::KvMapQuestion{place(), workspace.method(Slot::A)});
  ASSERT_TRUE(map) << map.error;
  EXPECT_EQ(map->map.chunks.size(), 12U);
}

TEST_F(Traces, AnUnreadableFileIsOneMessageAndNoTab) {
  listen();
  std::ofstream("broken.h5") << "no trace";
  workspace.traces.open("broken.h5");
  test::settle(workspace);
  EXPECT_EQ(workspace.traces.active(), nullptr);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("error: "));
  EXPECT_THAT(messages[0], HasSubstr("broken.h5"));
  // Beside another one, which stays as it is.
  open();
  workspace.cursor.set_chunk(3);
  workspace.traces.open("absent.h5");
  test::settle(workspace);
  EXPECT_EQ(workspace.traces.tabs().size(), 1U);
  EXPECT_EQ(place().chunk, 3);
  EXPECT_EQ(messages.size(), 2U);
}

TEST_F(Traces, WithoutAListenerTheTabSaysWhatIsWrong) {
  std::ofstream("broken.h5") << "no trace";
  workspace.traces.open("broken.h5");
  test::settle(workspace);
  ASSERT_NE(workspace.traces.active(), nullptr);
  EXPECT_EQ(workspace.traces.active()->state, ResultState::Error);
  EXPECT_THAT(workspace.traces.active()->error, HasSubstr("broken.h5"));
  EXPECT_FALSE(workspace.has_trace());
  EXPECT_EQ(workspace.ask(state::KvMapQuestion{place(), workspace.method()}).state,
            ResultState::Empty);
}

TEST_F(Traces, KeepTheirPlacesBesideEachOther) {
  open();
  workspace.cursor.set_chunk(2);
  open(short_trace());
  EXPECT_EQ(workspace.traces.tabs().size(), 2U);
  EXPECT_EQ(place().chunk, 2);  // the place is carried over
  workspace.cursor.set_chunk(3);
  workspace.traces.open(whole_trace());  // open already: shown
  EXPECT_EQ(workspace.traces.tabs().size(), 2U);
  EXPECT_EQ(place().chunk, 2);
  workspace.traces.close_active();
  EXPECT_EQ(place().chunk, 3);
  workspace.traces.close_active();
  EXPECT_EQ(workspace.traces.active(), nullptr);
  workspace.traces.close_active();
  EXPECT_TRUE(place().empty());
}

// With what it recorded itself, be it what the other one shows or not.
TEST_F(Traces, ASecondTraceOpensWithItsOwnRuns) {
  open();
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=96");
  workspace.cursor.set_run(Slot::B, 0);
  const std::string shared = workspace.method(Slot::B).text;
  test::GuiTraceOptions options = whole_options();
  options.runs = {"snapkv:budget_tokens=64", shared, "random:budget_tokens=64"};
  open(test::write_gui_trace("own runs.h5", options));
  EXPECT_EQ(workspace.method(Slot::A).run, 0) << "keydiff is none of its runs";
  EXPECT_EQ(workspace.method(Slot::B).run, 1) << "this one is";
  EXPECT_EQ(workspace.method(Slot::B).text, shared);
  // A trace without runs has nothing of its own.
  options.runs.clear();
  open(test::write_gui_trace("no runs.h5", options));
  EXPECT_EQ(workspace.method(Slot::A).id(), "snapkv");
}

TEST_F(Traces, APlaceGivenWithAFileIsWhereItOpens) {
  listen();
  workspace.traces.open(whole_trace(), state::parse_link("layer=2,chunk=4,q_head=5"));
  test::settle(workspace);
  EXPECT_EQ(state::goto_text(place()), "layer=2,q_head=5,chunk=4");
  workspace.traces.open(whole_trace(), state::parse_link("chunk=1"));
  EXPECT_EQ(state::goto_text(place()), "layer=2,q_head=5,chunk=1");
  workspace.traces.open(whole_trace(), state::parse_link("chunk=99"));
  EXPECT_EQ(place().chunk, 1);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("0 to 7"));
}

TEST_F(Traces, WhatIsShownOfAnOpenOneIsOneStepBack) {
  open();
  workspace.cursor.set_method(Slot::B, "oracle:budget_tokens=64");
  workspace.cursor.set_device("sim");
  workspace.cursor.set_numbers(state::parse_number_scope("all"));
  const state::Selection before = workspace.selection();
  state::ViewState what = state::parse_link("chunk=3;method=keydiff:budget_tokens=64");
  workspace.traces.open(whole_trace(), what);
  EXPECT_EQ(place().chunk, 3);
  EXPECT_EQ(workspace.method(Slot::B).id(), "keydiff");
  EXPECT_EQ(workspace.selection().numbers, before.numbers) << "none are named";
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_TRUE(workspace.selection() == before);
  what.numbers = state::parse_number_scope("2-4");
  workspace.traces.open(whole_trace(), what);
  EXPECT_EQ(workspace.selection().numbers, what.numbers);
}

TEST_F(Traces, WhatIsAskedForWhileItOpensIsShown) {
  for (const bool has_grown : {false, true}) {
    SCOPED_TRACE(has_grown ? "grown" : "read anew");
    {
      const test::HeldLane reading(workspace, {Lane::TraceIo});
      workspace.traces.open(whole_trace());
      workspace.traces.open(whole_trace(),
                            state::parse_link("chunk=2;method=keydiff:budget_tokens=64"));
      if (has_grown) {
        EXPECT_TRUE(workspace.traces.grown(whole_trace(), whole_trace()));
      } else {
        workspace.traces.reload_active();
      }
      const state::ViewState kept = state::state_of(*workspace.traces.active());
      EXPECT_EQ(kept.trace, whole_trace());
      EXPECT_EQ(kept.place.chunk, 2);
    }
    test::settle(workspace);
    ASSERT_TRUE(workspace.has_trace());
    EXPECT_EQ(place().chunk, 2);
    EXPECT_EQ(workspace.method(Slot::A).id(), "keydiff");
    workspace.traces.close_active();
  }
}

// The place of the longer trace does not exist in the shorter one, nor do its keys; what was shown of
// it is shown no more.
TEST_F(Traces, AShorterOneAfterALongerOneIsShownInItsOwnBounds) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=8,chunk=7,query=998,key=990-995"));
  state::LastAnswer<state::SelectedVsTrueQuestion> shown;
  const auto question = [&] {
    return state::SelectedVsTrueQuestion{place(), workspace.method(Slot::A)};
  };
  ASSERT_TRUE(answer_to(question()));
  const auto first = shown.ask(workspace, question());
  ASSERT_EQ(first.state, ResultState::Ready);
  open(short_trace());
  EXPECT_EQ(state::goto_text(place()), "layer=2,q_head=8,chunk=3");
  for (int frame = 0; frame < 6; ++frame) {
    std::optional<test::HeldLane> held;
    if (frame < 3) held.emplace(workspace);
    workspace.begin_frame();
    const auto now = shown.ask(workspace, question());
    ASSERT_EQ(static_cast<bool>(now), frame > 0);
    if (now) {
      EXPECT_FALSE(now.stale);
      EXPECT_EQ(now.question.place.trace->name, "short.h5");
      const auto& labels = now.question.place.trace->token_label;
      for (const analysis::KeyRank& key : now->cell.by_true_rank)
        ASSERT_LT(static_cast<std::size_t>(key.position), labels.size());
    }
    for (const state::ViewInfo& view : state::views()) {
      EXPECT_NO_THROW(view.problem(workspace)) << view.id;
      if (view.table != nullptr) {
        EXPECT_NO_THROW(view.table(workspace)) << view.id;
      }
    }
    held.reset();
    test::settle(workspace);
  }
  EXPECT_EQ(shown.ask(workspace, question()).question.place.trace->name, "short.h5");
}

TEST_F(Traces, ReadAnewKeepPlaceMethodsAndOptions) {
  const auto path = std::filesystem::absolute("again.h5");
  std::filesystem::copy_file(whole_trace(), path,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(whole_trace() + ".runs.h5", path.string() + ".runs.h5",
                             std::filesystem::copy_options::overwrite_existing);
  open(path.string());
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=5,key=40-52,window=16"));
  workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=96");
  workspace.cursor.set_run(Slot::B, 3);
  workspace.cursor.show(Slot::B);
  const state::Selection before = workspace.selection();
  const auto old = answer_to(state::KvMapQuestion{place(), workspace.method(Slot::A)});
  workspace.traces.reload_active();
  test::settle(workspace);
  EXPECT_EQ(state::goto_text(place()), state::goto_text(before.place));
  EXPECT_EQ(workspace.selection().method, before.method);
  EXPECT_EQ(workspace.selection().shown, before.shown);
  EXPECT_NE(place().trace, before.place.trace);
  // What was computed of the old file is not taken for the new one's.
  workspace.begin_frame();
  const auto anew = workspace.ask(state::KvMapQuestion{place(), workspace.method(Slot::A)});
  EXPECT_EQ(anew.state, ResultState::Loading);
  EXPECT_NE(anew.key, old.key);
}

TEST_F(Traces, WhatIsChangedWhileOneIsReadAnewStays) {
  open();
  const state::TracePtr old = place().trace;
  {
    const test::HeldLane reading(workspace, {Lane::TraceIo});
    workspace.traces.reload_active();
    workspace.cursor.set_chunk(5);
    workspace.cursor.set_method(Slot::A, "keydiff:budget_tokens=96");
  }
  test::settle(workspace);
  EXPECT_NE(place().trace, old);
  EXPECT_EQ(place().chunk, 5);
  EXPECT_EQ(workspace.method(Slot::A).id(), "keydiff");
}

// Another file in its place: fewer runs, tokens and chunks.
TEST_F(Traces, StepsBackAreOfTheFileThatIsThereNow) {
  const auto path = std::filesystem::absolute("replaced.h5");
  const auto put = [&](const std::string& from) {
    for (const char* sidecar : {"", ".runs.h5"})
      if (std::filesystem::exists(from + sidecar))
        std::filesystem::copy_file(from + sidecar, path.string() + sidecar,
                                   std::filesystem::copy_options::overwrite_existing);
      else
        std::filesystem::remove(path.string() + sidecar);
  };
  put(whole_trace());
  open(path.string());
  workspace.cursor.set_run(Slot::A, 3);
  workspace.cursor.set_chunk(6);
  workspace.cursor.set_keys(900, 910);
  const std::weak_ptr<const state::OpenTrace> old = place().trace;
  put(short_trace());
  workspace.traces.reload_active();
  test::settle(workspace);
  const auto is_of_what_is_there = [&] {
    EXPECT_EQ(place().info().num_tokens, 500);
    EXPECT_EQ(place().trace, workspace.traces.active()->selection.place.trace);
    EXPECT_LT(place().chunk, 4);
    for (const Slot slot : state::kSlots) EXPECT_LT(workspace.method(slot).run, 1);
  };
  is_of_what_is_there();
  EXPECT_TRUE(old.expired()) << "no step holds it";
  while (workspace.cursor.back()) is_of_what_is_there();
  while (workspace.cursor.forward()) is_of_what_is_there();
}

TEST_F(Traces, AnOpeningThatIsCancelledLeavesNoTab) {
  open();
  listen();
  {
    const test::HeldLane reading(workspace, {Lane::TraceIo});
    workspace.traces.open(short_trace());
    for (const JobStatus& job : workspace.answers.jobs().status())
      if (job.title.starts_with("Opening")) workspace.answers.give_up(job.tag);
  }
  test::settle(workspace);
  ASSERT_EQ(workspace.traces.tabs().size(), 1U);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("Opening short.h5 was cancelled"));
  open(short_trace());  // it can be opened still
  EXPECT_EQ(workspace.traces.tabs().size(), 2U);
}

TEST_F(Traces, WhatTakesAnothersNameTakesItsPlace) {
  const std::string part = std::filesystem::absolute("taken.h5.part").string();
  const std::string name = std::filesystem::absolute("taken.h5").string();
  std::filesystem::copy_file(whole_trace(), name,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(short_trace(), part,
                             std::filesystem::copy_options::overwrite_existing);
  open(part);
  open(name);
  std::filesystem::rename(part, name);
  EXPECT_TRUE(workspace.traces.grown(part, name));
  test::settle(workspace);
  ASSERT_EQ(workspace.traces.tabs().size(), 1U);
  EXPECT_EQ(workspace.traces.active()->path, name);
  EXPECT_EQ(place().info().num_tokens, 500);
}

TEST_F(Traces, ADeletedFileReadAnewLeavesTheViewAndSaysOneSentence) {
  const auto path = std::filesystem::absolute("gone.h5");
  std::filesystem::copy_file(whole_trace(), path,
                             std::filesystem::copy_options::overwrite_existing);
  open(path.string());
  listen();
  workspace.cursor.set_chunk(4);
  const state::KvMapQuestion question{place(), workspace.method(Slot::A)};
  ASSERT_TRUE(answer_to(question));
  std::filesystem::remove(path);
  workspace.traces.reload_active();
  test::settle(workspace);
  EXPECT_EQ(messages.size(), 1U);
  ASSERT_TRUE(workspace.has_trace());
  EXPECT_EQ(place().chunk, 4);
  EXPECT_EQ(workspace.ask(question).state, ResultState::Ready);
}

// The place and method of two open files may be the same: what is computed of one must never be
// taken for the other's. The jobs' tags are the keys of the questions that the views ask.
TEST_F(Traces, NeverShareAKey) {
  const auto keys_of = [&](const std::string& path) {
    open(path);
    workspace.cursor.go_to(state::parse_goto("layer=1,q_head=3,chunk=2,query=300,key=12"));
    workspace.cursor.set_method(Slot::A, "quest:budget_tokens=64");
    std::set<std::string> keys;
    for (const state::ViewInfo& view : state::views())
      for (int frame = 0; frame < 4; ++frame) {
        // In frames of even number what is urgent waits in the queue; what is patient is asked when
        // the lane is free.
        std::optional<test::HeldLane> held;
        if (frame % 2 == 0) held.emplace(workspace);
        workspace.begin_frame();
        view.problem(workspace);
        for (const JobStatus& job : workspace.answers.jobs().status())
          if (job.tag.rfind("held", 0) != 0) keys.insert(job.tag);
        held.reset();
        test::settle(workspace);
      }
    return keys;
  };
  const auto first = keys_of(whole_trace()), second = keys_of(short_trace());
  EXPECT_GE(first.size(), 2U);
  EXPECT_GE(second.size(), 2U);
  for (const std::string& key : first) EXPECT_EQ(second.count(key), 0U) << key;
}

TEST_F(Traces, ClosedTakeTheirAnswersAndTheirWorkAlong) {
  open();
  const state::KvMapQuestion question{place(), workspace.method(Slot::A)};
  ASSERT_TRUE(answer_to(question));
  EXPECT_GT(workspace.memory->held(MemoryPart::Answers), 0U);
  {
    const test::HeldLane computing(workspace), reading(workspace, {Lane::TraceIo});
    workspace.ask(state::RecallQuestion{place(), workspace.method(Slot::B)});
    workspace.ask(state::KvMapQuestion{place(), workspace.method(Slot::B)});
    workspace.traces.close_active();
    EXPECT_EQ(workspace.answers.jobs().status().size(), 3U) << "only the held lanes work on";
  }
  test::settle(workspace);
  EXPECT_EQ(workspace.memory->held(MemoryPart::Answers), 0U);
}

}  // namespace
}  // namespace kvloupe
