#include "core/selection/methods/lane_selector.h"

#include "core/selection/cell_rows.h"

namespace kvloupe::selection {

LanePruning pruning_of(const Setup& setup, LaneChoice choice, std::int64_t usable) {
  return {choice, usable, lanes_kept(setup.spec.real("dim_ratio"), usable)};
}

LaneSelector::LaneSelector(const Setup& setup, const LanePruning& pruning)
    : VisibilitySelector(setup.spec), basis_(setup.basis), pruning_(pruning) {}

std::optional<PrunedLanes> LaneSelector::lanes(const Cell& cell) {
  return prune_lanes(cell, basis_, pruning_);
}

std::vector<SelectedRow> LaneSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                              std::int64_t) {
  return std::vector(static_cast<std::size_t>(num_rows(cell)),
                     SelectedRow{range(0, num_candidates)});
}

}  // namespace kvloupe::selection
