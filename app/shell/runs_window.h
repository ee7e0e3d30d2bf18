// The methods at hand: the recorded runs and what was tried on the spot, with what each keeps: of the
// watched keys here, once they have been read, else of the attention mass in this layer. One click
// makes any of them A or B.
#pragma once

#include "app/state/questions/run.h"
#include "app/state/questions/runs.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <map>
#include <optional>
#include <string>

namespace kvloupe::shell {

class RunsWindow {
 public:
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // Nothing of a closed trace.
  void forget() {
    worth_.clear();
    kept_.clear();
  }

 private:
  void rows_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void row_ui(state::Workspace& workspace, const widgets::Palette& palette,
              const state::MethodChoice& method, int index);
  void worth_ui(state::Workspace& workspace, const widgets::Palette& palette,
                const state::MethodChoice& method);
  void mass_ui(const widgets::Palette& palette,
               const state::Result<state::RunSummaryQuestion>& summary);
  void watched_ui(const widgets::Palette& palette, const state::Place& place,
                  const state::Result<state::RunQuestion>& run,
                  const state::Result<state::RunSummaryQuestion>& summary);

  std::map<std::string, state::LastAnswer<state::RunSummaryQuestion>> worth_;  // by method
  std::map<std::string, state::LastAnswer<state::RunQuestion>> kept_;          // by method
  std::optional<trace::TokenSpan> watched_;  // all or some of it before the last of `spans_`
  state::NumberChunks chunks_, spans_;       // over which masses and kept keys are counted
};

}  // namespace kvloupe::shell
