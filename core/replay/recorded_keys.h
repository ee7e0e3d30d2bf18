// A recorded run, cell by cell, as a method that is run again is given (stage_runs.h). Private to
// core/replay: needs Torch.
#pragma once

#include "core/replay/stage_runs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::replay {

class RecordedRuns {
 public:
  // `session` is borrowed. Throws Error{Input} for a run or a layer of it that was not recorded.
  RecordedRuns(const session::TraceSession& session, int run, int layer, const std::string& device);

  // What was kept, with mass and lse, and with `scores` what was ranked, of a run that has scores. No
  // alternatives, which no run records. Throws as StageRuns::step().
  CellRun step(int chunk, bool scores = false);
  const selection::RowLayout& layout() const { return layout_; }
  // The steps that can have lost a key: an eviction, and where scores say what was best the budget.
  std::vector<Stage> stages() const;
  // The chunk after which the key died in the row; trace::kAlive: none, or the run evicts nothing.
  std::uint16_t evicted_after(int row, std::int64_t key) const;

 private:
  // Damaged ones are left out, with a warning.
  std::vector<std::vector<float>> scores_of(int chunk) const;
  void add_scores(int chunk, CellRun& run) const;

  const session::TraceSession& session_;
  int run_, layer_;
  selection::RowLayout layout_;
  trace::LayerRecord record_;
  session::CellLoader cells_;
};

}  // namespace kvloupe::replay
