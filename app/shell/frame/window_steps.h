// What was done to the window itself (a view closed, doubled or locked, a layout chosen, a trace closed),
// for undo and redo. What is shown of a trace has a history of its own (state::SelectionHistory).
#pragma once

#include "app/state/workspace.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class WindowSteps {
 public:
  explicit WindowSteps(const state::Workspace& workspace) : workspace_(workspace) {}

  // After it was done.
  void push(std::function<void()> back, std::function<void()> forward);

  bool can_go_back() const { return !done_.empty(); }
  // Nothing of what is shown has changed since the last one.
  bool is_last() const;
  bool is_next() const;  // the same since the last that was taken back
  void back() { take(done_, undone_, &Step::back); }
  void forward() { take(undone_, done_, &Step::forward); }

 private:
  // What was shown, without holding a trace that is closed.
  struct Moment {
    state::Selection selection;
    std::string trace;
    bool operator==(const Moment&) const = default;
  };
  struct Step {
    std::function<void()> back, forward;
    Moment at;  // when it was done, or taken back
  };
  Moment now() const;
  void take(std::vector<Step>& from, std::vector<Step>& to, std::function<void()> Step::*way);

  const state::Workspace& workspace_;
  std::vector<Step> done_, undone_;  // the last at the end
};

}  // namespace kvloupe::shell
