// The parameters of a slot's method while they are changed: the view follows a slider as it is dragged,
// as fast as its questions are answered, and a drag is one step back.
#pragma once

#include "app/shell/methods/param_ui.h"
#include "app/state/workspace.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

class MethodKnobs {
 public:
  // The draft is of the method that the slot has, whoever changed that.
  void follow(const state::Workspace& workspace, state::Slot slot);
  state::MethodDraft& draft() { return draft_; }
  state::MethodDraft defaults(const state::Workspace& workspace) const;
  // How far the controls go.
  ParamRoom room(const state::Workspace& workspace) const;
  // The controls as a table: all of them, or those named.
  void draw(state::Workspace& workspace, const widgets::Palette& palette, state::Slot slot,
            const std::vector<std::string>& only = {});
  // Once a frame, after other controls: shows the draft, or what is wrong with it.
  void apply(state::Workspace& workspace, state::Slot slot, Edit edit);
  // One sentence; empty: it can be used.
  std::string problem() const;
  void forget_problem() { problem_.clear(); }

 private:
  void drag(state::Workspace& workspace, state::Slot slot);
  // `complete`: it counts as tried.
  void show(state::Workspace& workspace, state::Slot slot, bool complete);

  state::MethodDraft draft_;
  std::string drafted_;  // key of the choice that the draft stands for
  std::string problem_;
  bool dragging_ = false;
  int drag_ = 0;   // number of this drag
  int frame_ = 0;  // in which the controls were last drawn
  // SPECs of this drag: the one at its beginning, the newest, and the one last shown.
  std::string begun_, wanted_, shown_;
  double changed_ = 0;  // seconds, when the newest came
};

}  // namespace kvloupe::shell
