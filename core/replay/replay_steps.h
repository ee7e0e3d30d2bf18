// Steps that a replay and a recorded run share. Private to core/replay: needs Torch.
#pragma once

#include "core/replay/cell_metrics.h"
#include "core/replay/replay.h"
#include "core/replay/request_checks.h"
#include "core/selection/selector.h"

#include <optional>

namespace kvloupe::replay {

// Fills the metrics of `result` with what `selection` is worth. `spec` is empty for a recorded run of
// an unknown method.
void measure(const trace::ModelInfo& model, const selection::Cell& cell, CellTruth& truth,
             const std::optional<selection::MethodSpec>& spec, const selection::RowLayout& layout,
             const selection::CellSelection& selection, const Wanted& wanted, ReplayCell& result);

}  // namespace kvloupe::replay
