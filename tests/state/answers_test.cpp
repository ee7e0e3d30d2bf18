// Questions and answers: what is asked is computed once, cancelled when nobody asks any more,
// remembered within the memory limit, and never passed off as the answer to something else.
#include "app/state/answers.h"

#include "app/state/workspace.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/gui/workspace_steps.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace kvloupe {
namespace {

using state::Answers;
using state::Pace;
using state::ResultState;
using state::Steps;

// What the questions of a test do and what became of them.
struct Script {
  std::atomic<bool> wait{false}, fail{false};
  std::atomic<int> begun{0}, cancelled{0};
};

void act(Script& script, Steps& steps) {
  ++script.begun;
  while (script.wait) {
    if (steps.context.cancel.cancelled()) ++script.cancelled;
    steps.context.cancel.throw_if_cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (script.fail) throw input_error("it failed", "it was told to", "tell it to answer");
}

struct Number {
  static constexpr const char* kName = "number";
  int value = 0;
  Script* script = nullptr;
  state::ResultsPtr results = {};  // it is of no trace
  using Answer = int;
  std::string key() const { return "t" + std::to_string(value % 10) + "|" + std::to_string(value); }
  std::string title() const { return "Counting"; }
  std::string obstacle() const { return value < 0 ? "Choose a number" : ""; }
  int work(Steps& steps) const {
    act(*script, steps);
    return value;
  }
  static std::uint64_t bytes(const int&) { return 100; }
};

struct Twice {  // builds on Number
  static constexpr const char* kName = "twice";
  int value = 0;
  Script* script = nullptr;
  using Answer = int;
  std::string key() const { return Number{value, script}.key(); }
  std::string title() const { return "Doubling"; }
  int work(Steps& steps) const { return 2 * *steps.need(Number{value, script}); }
};

struct Stubborn {  // goes on after it was cancelled, as work does between two looks at its flag
  static constexpr const char* kName = "stubborn";
  int value = 0;
  Script* script = nullptr;
  using Answer = int;
  std::string key() const { return Number{value, script}.key(); }
  std::string title() const { return "Going on"; }
  int work(Steps& steps) const {
    ++script->begun;
    while (!steps.context.cancel.cancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return *steps.need(Number{value, script});
  }
};

struct Patient : Number {
  static constexpr const char* kName = "patient";
  static constexpr Pace kPace = Pace::Patient;
};

struct Measurement : Number {
  static constexpr const char* kName = "measurement";
  static constexpr Pace kPace = Pace::OnRequest;
  int work(Steps& steps) const {
    steps.show(-1);
    act(*script, steps);
    return value;
  }
};

class AnswersTest : public ::testing::Test {
 protected:
  void settle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (answers.busy() && std::chrono::steady_clock::now() < end) {
      answers.deliver();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void wait_for(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!what() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(what());
  }
  template <state::Question Q>
  state::Result<Q> answer(const Q& question) {
    answers.begin_frame();
    answers.ask(question);
    settle();
    answers.begin_frame();
    return answers.ask(question);
  }

  Script script;
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>(1000);
  Answers answers{memory};
};

TEST_F(AnswersTest, AreComputedOnceAndKeptWithTheirQuestion) {
  EXPECT_EQ(answers.ask(Number{3, &script}).state, ResultState::Loading);
  answers.ask(Number{3, &script});
  settle();
  const auto result = answers.ask(Number{3, &script});
  ASSERT_EQ(result.state, ResultState::Ready);
  EXPECT_EQ(*result, 3);
  EXPECT_EQ(result.question.value, 3);
  EXPECT_EQ(result.key, "number|t3|3");
  EXPECT_EQ(state::problem_of(result), "");
  EXPECT_EQ(script.begun, 1);
}

TEST_F(AnswersTest, WhatCannotBeAskedSaysWhy) {
  const auto result = answers.ask(Number{-1, &script});
  EXPECT_EQ(result.state, ResultState::Empty);
  EXPECT_EQ(state::problem_of(result), "Choose a number");
  EXPECT_FALSE(answers.busy());
}

TEST_F(AnswersTest, AnErrorIsAStateWithItsSentenceAndIsNotTriedAgain) {
  script.fail = true;
  const auto result = answer(Number{3, &script});
  EXPECT_EQ(result.state, ResultState::Error);
  EXPECT_THAT(state::problem_of(result), HasSubstr("it failed; it was told to"));
  EXPECT_EQ(answer(Number{3, &script}).state, ResultState::Error);
  EXPECT_EQ(script.begun, 1);
  // What needs the failed answer fails with the same sentence.
  EXPECT_THAT(answer(Twice{3, &script}).error, HasSubstr("it failed"));
}

TEST_F(AnswersTest, WhatFailedIsTriedAgainOnRequest) {
  script.fail = true;
  EXPECT_EQ(answer(Number{3, &script}).state, ResultState::Error);
  EXPECT_EQ(answer(Twice{3, &script}).state, ResultState::Error);
  script.fail = false;
  EXPECT_EQ(answer(Twice{3, &script}).state, ResultState::Error);
  answers.forget_failures();
  EXPECT_EQ(answer(Twice{3, &script}).state, ResultState::Ready);
  EXPECT_EQ(script.begun, 2);
}

TEST_F(AnswersTest, BuildOnEachOther) {
  EXPECT_EQ(*answer(Twice{4, &script}), 8);
  EXPECT_EQ(*answers.ask(Number{4, &script}), 4);
  EXPECT_EQ(script.begun, 1);
}

TEST_F(AnswersTest, WhatNobodyAsksForAnyMoreIsCancelled) {
  script.wait = true;
  answers.begin_frame();
  answers.ask(Number{1, &script});
  wait_for([&] { return script.begun == 1; });
  answers.ask(Number{2, &script});  // queued behind it
  for (int frame = 0; frame < 4; ++frame) {
    answers.begin_frame();
    answers.ask(Number{3, &script});
  }
  wait_for([&] { return script.cancelled == 1; });
  script.wait = false;
  settle();
  EXPECT_EQ(*answers.ask(Number{3, &script}), 3);
  EXPECT_EQ(script.begun, 2) << "the queued one was begun although nobody wants it";
  // Asked for again it is begun anew.
  EXPECT_EQ(*answer(Number{1, &script}), 1);
}

TEST_F(AnswersTest, WhatIsAskedForEveryFrameIsNotCancelled) {
  script.wait = true;
  for (int frame = 0; frame < 10; ++frame) {
    answers.begin_frame();
    EXPECT_EQ(answers.ask(Number{1, &script}).state, ResultState::Loading);
  }
  script.wait = false;
  settle();
  EXPECT_EQ(*answers.ask(Number{1, &script}), 1);
  EXPECT_EQ(script.begun, 1);
}

TEST_F(AnswersTest, AQuestionThatTheUserCancelledSaysSo) {
  script.wait = true;
  answers.begin_frame();
  answers.ask(Number{1, &script});
  wait_for([&] { return script.begun == 1; });
  answers.give_up(state::key_of(Number{1, &script}));
  settle();
  const auto result = answers.ask(Number{1, &script});
  EXPECT_EQ(result.state, ResultState::Error);
  EXPECT_THAT(result.error, HasSubstr("cancelled"));
  EXPECT_FALSE(answers.busy());
  EXPECT_EQ(script.cancelled, 1);
}

TEST_F(AnswersTest, WhatBuildsOnACancelledQuestionSaysSoUntilItIsTriedAgain) {
  script.wait = true;
  answers.begin_frame();
  answers.ask(Number{1, &script});
  wait_for([&] { return script.begun == 1; });
  answers.give_up(state::key_of(Number{1, &script}));
  script.wait = false;
  settle();
  const auto twice = answer(Twice{1, &script});
  EXPECT_EQ(twice.state, ResultState::Error) << "not loading for ever";
  EXPECT_THAT(twice.error, HasSubstr("cancelled"));
  answers.forget_failures();
  EXPECT_EQ(*answer(Twice{1, &script}), 2);
}

TEST_F(AnswersTest, PatientOnesWaitUntilNothingElseRuns) {
  script.wait = true;
  answers.begin_frame();
  answers.ask(Number{1, &script});
  EXPECT_EQ(answers.ask(Patient{{2, &script}}).state, ResultState::Loading);
  EXPECT_EQ(answers.jobs().status().size(), 1U);
  script.wait = false;
  settle();
  EXPECT_EQ(answers.ask(Patient{{2, &script}}).state, ResultState::Loading);
  settle();
  EXPECT_EQ(*answers.ask(Patient{{2, &script}}), 2);
}

// Minutes of selecting, on a long trace, hold nothing up that is of the place alone.
TEST_F(AnswersTest, WhatTakesLongHasALaneOfItsOwn) {
  script.wait = true;
  answers.begin_frame();
  answers.ask(Patient{{1, &script}});
  wait_for([&] { return script.begun == 1; });
  Script other;
  const Number quick{2, &other};
  for (int frame = 0; frame < 2000 && !answers.ask(quick); ++frame) {
    answers.begin_frame();
    answers.ask(Patient{{1, &script}});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(*answers.ask(quick), 2);
  EXPECT_TRUE(answers.busy());
  script.wait = false;
}

TEST_F(AnswersTest, MeasurementsBeginByHandAndKeepWhatTheyHaveWhenStopped) {
  const Measurement question{{5, &script}};
  EXPECT_EQ(answers.ask(question).state, ResultState::Empty);
  script.wait = true;
  answers.start(question);
  wait_for([&] { return answers.ask(question).answer != nullptr; });
  EXPECT_TRUE(answers.measuring());
  for (int frame = 0; frame < 4; ++frame) answers.begin_frame();  // not looked at: it goes on
  EXPECT_EQ(answers.ask(question).state, ResultState::Loading);
  answers.stop(question);
  settle();
  EXPECT_FALSE(answers.measuring());
  ASSERT_EQ(answers.ask(question).state, ResultState::Ready);
  EXPECT_EQ(*answers.ask(question), -1);
  script.wait = false;
  answers.start(question);
  settle();
  EXPECT_EQ(*answers.ask(question), 5);
}

TEST_F(AnswersTest, TheMemoryLimitNeverTakesWhatIsOnScreen) {
  for (int value = 1; value <= 8; ++value) answer(Number{value, &script});
  EXPECT_EQ(memory->held(MemoryPart::Answers), 800U);
  answers.begin_frame();
  // Two answers are looked at in every frame while others come and go.
  for (int value = 9; value <= 30; ++value) {
    EXPECT_EQ(answers.ask(Number{1, &script}).state, ResultState::Ready) << value;
    EXPECT_EQ(answers.ask(Number{2, &script}).state, ResultState::Ready) << value;
    answers.ask(Number{value, &script});
    settle();
    answers.begin_frame();
    EXPECT_LE(memory->held(MemoryPart::Answers), 1000U);
  }
  EXPECT_EQ(answers.ask(Number{5, &script}).state, ResultState::Loading) << "longest unseen";
  EXPECT_EQ(answers.ask(Number{30, &script}).state, ResultState::Ready);
}

// More on screen than the limit allows: all of it stays.
TEST_F(AnswersTest, AScreenLargerThanTheLimitIsKept) {
  for (int frame = 0; frame < 6; ++frame) {
    answers.begin_frame();
    for (int value = 1; value <= 20; ++value) answers.ask(Number{value, &script});
    settle();
  }
  EXPECT_EQ(script.begun, 20);
  EXPECT_EQ(memory->held(MemoryPart::Answers), 2000U);
}

TEST_F(AnswersTest, AreForgottenByPartOfTheirKeys) {
  answer(Number{1, &script});
  answer(Number{11, &script});
  answer(Number{2, &script});
  answers.forget("t1");
  EXPECT_EQ(memory->held(MemoryPart::Answers), 100U);
  EXPECT_EQ(answers.ask(Number{2, &script}).state, ResultState::Ready);
  EXPECT_EQ(answers.ask(Number{1, &script}).state, ResultState::Loading);
}

TEST_F(AnswersTest, WhatIsForgottenDoesNotComeBackWithWorkThatWasUnderWay) {
  answers.ask(Stubborn{1, &script});
  wait_for([&] { return script.begun == 1; });
  answers.forget("t1");
  settle();
  EXPECT_EQ(script.begun, 2) << "the work went on to what it builds on";
  EXPECT_EQ(memory->held(MemoryPart::Answers), 0U);
}

// While a new answer is computed the old one stays, and says that it is the old one.
TEST(LastAnswer, StaleAnswersCarryTheirOwnQuestion) {
  Script script;
  state::Workspace workspace;
  state::LastAnswer<Number> shown;
  const auto ask = [&](int value) {
    workspace.begin_frame();
    return shown.ask(workspace, Number{value, &script});
  };
  EXPECT_FALSE(ask(1));
  test::settle(workspace);
  EXPECT_EQ(*ask(1), 1);
  script.wait = true;
  for (int frame = 0; frame < 3; ++frame) {
    const auto stale = ask(2);
    EXPECT_EQ(stale.state, ResultState::Loading);
    EXPECT_TRUE(stale.stale);
    EXPECT_EQ(*stale, 1);
    EXPECT_EQ(stale.question.value, 1);
    EXPECT_EQ(stale.key, "number|t1|1");
  }
  // Going on, and back before anything came.
  EXPECT_EQ(ask(3).question.value, 1);
  const auto back = ask(1);
  EXPECT_EQ(back.state, ResultState::Ready);
  EXPECT_FALSE(back.stale);
  script.wait = false;
  ask(2);
  test::settle(workspace);
  const auto done = ask(2);
  EXPECT_EQ(*done, 2);
  EXPECT_FALSE(done.stale);
  // An error is not hidden behind an old answer.
  script.fail = true;
  ask(4);
  test::settle(workspace);
  EXPECT_EQ(ask(4).state, ResultState::Error);
  EXPECT_FALSE(ask(4));
  // Nor is the end of all questions.
  EXPECT_EQ(ask(-1).state, ResultState::Empty);
}

}  // namespace
}  // namespace kvloupe
