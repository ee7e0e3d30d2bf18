// The methods at hand as a table: the recorded runs and what was tried on the spot, with what each
// keeps of the watched keys here and the numbers of its layer. One click makes any of them A or B, or
// sorts by a number; a right click on the head chooses the numbers.
#pragma once

#include "app/shell/commands/run_self.h"
#include "app/shell/windows/messages.h"
#include "app/state/questions/how_it_ran/run.h"
#include "app/state/questions/how_it_ran/runs.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"
#include "core/replay/span_kept.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class RunsWindow {
 public:
  explicit RunsWindow(Messages& messages) : messages_(messages) {}
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // Nothing of a closed trace.
  void forget() {
    summaries_.clear();
    kept_.clear();
  }
  // Runs the command line that saves a run: "" on success, else its sentence. On a job's thread.
  std::function<std::string(const std::vector<std::string>& arguments)> run_command = run_self;

 private:
  struct Row {
    state::MethodChoice method;
    std::string label;  // tells it from the others of the list
    int index = 0;      // in the list: recorded ones, then those tried
    bool tried = false;
    state::Result<state::RunSummaryQuestion> summary;
    state::Result<state::RunQuestion> run;     // asked where keys are watched
    std::optional<replay::SpanCount> watched;  // of the heads shown, in the chunks of `spans_`
  };
  std::vector<Row> rows_of(state::Workspace& workspace);
  replay::SpanCount watched_of(const state::Place& place, const Row& row) const;
  void sort(std::vector<Row>& rows) const;
  void row_ui(state::Workspace& workspace, const widgets::Palette& palette, const Row& row);
  void name_ui(state::Workspace& workspace, const Row& row);
  void menu_ui(state::Workspace& workspace, const Row& row);
  void watched_ui(const widgets::Palette& palette, const Row& row) const;
  void save(state::Workspace& workspace, const state::MethodChoice& method);

  Messages& messages_;
  std::map<std::string, state::LastAnswer<state::RunSummaryQuestion>> summaries_;  // by method
  std::map<std::string, state::LastAnswer<state::RunQuestion>> kept_;              // by method
  std::optional<trace::TokenSpan> watched_;  // all or some of it before the last of `spans_`
  state::NumberChunks chunks_, spans_;       // over which numbers and watched keys are counted
};

}  // namespace kvloupe::shell
