// The lanes of the AQUA methods, and the selector of those that drop no key: each query row uses some of
// its lanes.
#pragma once

#include "core/selection/lanes/lanes.h"
#include "core/selection/spec/method.h"
#include "core/selection/visibility_selector.h"

namespace kvloupe::selection {

// Of the lanes [0, usable) the share dim_ratio.
LanePruning pruning_of(const Setup& setup, LaneChoice choice, std::int64_t usable);

// All candidates, in every cell with pruned lanes: also where nothing is past, for the chunk's own
// keys are scored by lanes too.
class LaneSelector final : public VisibilitySelector {
 public:
  LaneSelector(const Setup& setup, const LanePruning& pruning);

 protected:
  std::optional<PrunedLanes> lanes(const Cell& cell) override;
  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                  std::int64_t budget) override;

 private:
  BasisPtr basis_;
  LanePruning pruning_;
};

}  // namespace kvloupe::selection
