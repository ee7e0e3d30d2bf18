// The methods at hand as a table: the recorded runs and what was tried on the spot, with what each
// keeps of the watched keys here and the numbers of its layer. One click makes any of them A or B, or
// sorts by a number; a right click on the head chooses the numbers. Rows can be pinned to the top and have
// names of their own.
#pragma once

#include "app/shell/saved/background_writer.h"
#include "app/shell/windows/messages.h"
#include "app/state/questions/how_it_ran/run.h"
#include "app/state/questions/how_it_ran/runs.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"
#include "core/base/run_self.h"
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
  ~RunsWindow() { finish(); }
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // Nothing of a closed trace.
  void forget() {
    summaries_.clear();
    kept_.clear();
    renaming_.clear();
    followed_.clear();
  }
  // Reads names and pins that are kept beside the trace.
  void load_marks(state::TraceTab& tab);
  // All is on the disk when it returns.
  void finish() { writer_.finish(); }
  // Runs the command line that saves a run, on a job's thread.
  CommandRunner run_command = run_self;

 private:
  using MethodChoice = state::MethodChoice;
  struct Row {
    state::MethodChoice method;
    std::string label;  // tells it from the others of the list
    int index = 0;      // in the list: recorded ones, then those tried
    bool tried = false;
    bool pinned = false;
    state::Result<state::RunSummaryQuestion> summary;
    state::Result<state::RunQuestion> run;     // asked where keys are watched
    std::optional<replay::SpanCount> watched;  // of the heads shown, in the chunks of `spans_`
  };
  std::vector<Row> rows_of(state::Workspace& workspace);
  replay::SpanCount watched_of(const state::Place& place, const Row& row) const;
  void sort(std::vector<Row>& rows) const;
  void row_ui(state::Workspace& workspace, const widgets::Palette& palette, const Row& row);
  void show(state::Workspace& workspace, state::Slot slot, const MethodChoice& method);
  void name_ui(state::Workspace& workspace, const Row& row);
  void rename_ui(state::Workspace& workspace, const MethodChoice& method);
  void point_at(state::Workspace& workspace, const Row& row);
  void menu_ui(state::Workspace& workspace, const MethodChoice& method, bool tried);
  void change_marks(state::Workspace& workspace,
                    const std::function<void(state::RunMarks&)>& change);
  void watched_ui(const widgets::Palette& palette, const Row& row) const;
  void save(state::Workspace& workspace, const state::MethodChoice& method);

  Messages& messages_;
  std::string renaming_;  // SPEC of the row whose name is typed
  std::string typed_;
  bool focus_ = false;    // on that field, in the next frame
  std::string followed_;  // trace and method shown, whose row was brought into sight
  std::map<std::string, state::LastAnswer<state::RunSummaryQuestion>> summaries_;  // by method
  std::map<std::string, state::LastAnswer<state::RunQuestion>> kept_;              // by method
  std::optional<trace::NamedKeys> watched_;  // all or some of it before the last of `spans_`
  state::NumberChunks chunks_, spans_;       // over which numbers and watched keys are counted
  BackgroundWriter writer_;
};

}  // namespace kvloupe::shell
