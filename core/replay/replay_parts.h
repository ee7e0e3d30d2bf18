// Steps that a replay and a recorded run share. Private to core/replay: needs Torch.
#pragma once

#include "core/replay/cell_metrics.h"
#include "core/replay/replay.h"
#include "core/selection/selector.h"

#include <optional>
#include <vector>

namespace kvloupe::replay {

// The layers asked for, ascending; all captured ones for an empty list. Throws Error{Input} for one
// not captured.
std::vector<int> checked_layers(const trace::TraceInfo& info, const std::vector<int>& wanted);
// Throws Error{Input} for a chunk that does not exist.
void check_chunk(const std::optional<int>& chunk, std::size_t num_chunks);

// Fills the metrics of `result` with what `selection` is worth. `spec` is empty for a recorded run of
// an unknown method.
void measure(const trace::ModelInfo& model, const selection::Cell& cell, CellTruth& truth,
             const std::optional<selection::MethodSpec>& spec, const selection::RowLayout& layout,
             const selection::CellSelection& selection, const Wanted& wanted, ReplayCell& result);

}  // namespace kvloupe::replay
