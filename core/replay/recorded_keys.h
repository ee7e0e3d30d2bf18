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

  // What was kept, with mass and lse: no scores and no alternatives, which no run records. Throws as
  // StageRuns::step().
  CellRun step(int chunk);
  const selection::RowLayout& layout() const { return layout_; }
  // The chunk after which the key died in the row; trace::kAlive: none, or the run evicts nothing.
  std::uint16_t evicted_after(int row, std::int64_t key) const;

 private:
  const session::TraceSession& session_;
  int layer_;
  selection::RowLayout layout_;
  trace::LayerRecord record_;
  session::CellLoader cells_;
};

}  // namespace kvloupe::replay
