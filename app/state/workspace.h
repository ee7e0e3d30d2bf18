// The state behind the window and behind an export, without widgets: what is open, what is looked
// at, and what is known of it. One thread uses it.
#pragma once

#include "app/state/answers.h"
#include "app/state/cursor.h"
#include "app/state/explained_method.h"
#include "app/state/open_results.h"
#include "app/state/pointer.h"
#include "app/state/traces.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::state {

struct ViewInfo;

class Workspace {
 public:
  explicit Workspace(MemoryAccountPtr account = std::make_shared<MemoryAccount>(),
                     Traces::Opener opener = open_trace);

  const MemoryAccountPtr memory;
  Answers answers;
  Traces traces;
  OpenResults results;
  Cursor cursor;
  Pointer pointer;
  ExplainedMethod explained;
  std::string wanted_command;  // of the window, by its id, that a view has a button for

  // Once a frame, before anything is asked.
  int begin_frame() {
    pointer.begin_frame();
    explained.begin_frame();
    results.begin_frame();
    return answers.begin_frame();
  }
  template <Question Q>
  Result<Q> ask(const Q& question) {
    return answers.ask(question);
  }

  bool has_trace() const { return traces.ready() != nullptr; }
  // Whether what the view shows is open: a trace, or results.
  bool can_show(const ViewInfo& view) const;
  const Selection& selection() const { return cursor.selection(); }
  const Place& place() const { return cursor.place(); }
  const MethodChoice& method(Slot slot) const { return selection().choice(slot); }
  const MethodChoice& method() const { return method(selection().shown); }
  // Another that shows the same and has the answers that stand on screen, for one thread to work on
  // while this one goes on: none of these is computed again.
  std::unique_ptr<Workspace> apart() const;
  // What was named beside A and B, and on request what was tried on the spot.
  std::vector<MethodChoice> more_methods(bool and_tried) const;
  // The choice made for an option of a view, or its default.
  const std::string& option(const std::string& view, const std::string& name) const;
  void choose(const std::string& view, const std::string& name, const std::string& value);
};

// Why nothing is drawn of the question that a view asks now: for ViewInfo::problem.
template <auto kQuestion>
std::string problem_with(Workspace& workspace) {
  return problem_of(workspace.ask(kQuestion(workspace)));
}

// What a panel last showed of one question: while a new answer is computed the old one stays on
// screen, labelled as what it is. Not one of another trace, which has other chunks and tokens.
template <Question Q>
class LastAnswer {
 public:
  Result<Q> ask(Workspace& workspace, const Q& question) {
    Result<Q> result = workspace.ask(question);
    if (result.state == ResultState::Loading && !result.answer && last_.answer &&
        is_of_one_trace(last_.question, question)) {
      result = last_;
      result.state = ResultState::Loading;
      result.stale = true;
      return result;
    }
    last_ = result;
    return result;
  }

 private:
  // By its file: a trace that is recorded is read anew with every chunk.
  static bool is_of_one_trace(const Q& last, const Q& question) {
    if constexpr (requires { question.results; }) {
      return true;
    } else {
      const Place &a = place_of(last), &b = place_of(question);
      return a.trace && b.trace && a.trace->path == b.trace->path;
    }
  }
  static const Place& place_of(const Q& question) {
    if constexpr (requires { question.place; })
      return question.place;
    else
      return question.asked_at();  // it is made of other questions
  }

  Result<Q> last_;
};

}  // namespace kvloupe::state
