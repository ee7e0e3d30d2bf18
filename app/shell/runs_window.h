// The methods at hand: the recorded runs and what was tried on the spot, with what each keeps in
// this layer. One click makes any of them A or B.
#pragma once

#include "app/state/questions/runs.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <map>
#include <string>

namespace kvloupe::shell {

inline constexpr const char* kRunsWindow = "Runs";

class RunsWindow {
 public:
  void draw(state::Workspace& workspace, const widgets::Palette& palette, bool* open);
  // Nothing of a closed trace.
  void forget() { worth_.clear(); }

 private:
  void rows_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void row_ui(state::Workspace& workspace, const widgets::Palette& palette,
              const state::MethodChoice& method, int index);
  void worth_ui(state::Workspace& workspace, const widgets::Palette& palette,
                const state::MethodChoice& method);

  std::map<std::string, state::Shown<state::RunSummaryQuestion>> worth_;  // by method
  bool docked_ = false;
};

}  // namespace kvloupe::shell
