// The lock of a view in the window: kept in words, it is looked up on the traces that are open now. Its
// line above the view says what it is locked to, and has the x that takes it away.
#pragma once

#include "app/state/sight.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <optional>
#include <string>

namespace kvloupe::shell {

class ViewLock {
 public:
  ViewLock(std::string id, const state::ViewInfo* view);

  const std::optional<state::ViewState>& words() const { return words_; }
  void set(std::optional<state::ViewState> words);

  // Holds no trace until it is looked up again, which those in another workspace are not.
  void let_go();
  // Before the view is drawn in a frame: what it sees; null where it sees the selection as it is, and
  // where it cannot be shown.
  state::Sight* look_up(const state::Traces& traces);
  // Above the view; true when the x was pressed.
  bool line_ui(const state::Workspace& workspace, const widgets::Palette& palette) const;
  // In place of the view where its lock leads nowhere now. False: it does.
  enum class Wish { Nothing, Unlock, OpenTrace };
  bool in_the_way() const { return state_ != State::Shown; }
  Wish obstacle_ui(const widgets::Palette& palette) const;
  // The view itself chose A or B.
  bool was_changed() const;
  state::ViewState changed() const;

 private:
  enum class State { Shown, Closed, Loading, Unknown };

  const state::ViewInfo* view_;
  state::Sight sight_;
  std::optional<state::ViewState> words_;
  state::TracePtr on_;  // for which the sight was looked up
  State state_ = State::Shown;
  std::string problem_;
};

}  // namespace kvloupe::shell
