// What the AQUA methods have in common: no key is dropped, each query row uses some of its lanes.
#pragma once

#include "core/selection/lanes.h"
#include "core/selection/method.h"
#include "core/selection/visibility_selector.h"

#include <functional>

namespace kvloupe::selection {

using PruningRule = std::function<LanePruning(const MethodSpec&, std::int64_t head_dim)>;

// All candidates, in every cell with the lanes that `rule` keeps: also where nothing is past, for
// the chunk's own keys are scored by lanes too.
class LaneSelector final : public VisibilitySelector {
 public:
  LaneSelector(const Setup& setup, const PruningRule& rule);

 protected:
  std::optional<LaneSelection> lanes(const Cell& cell) override;
  std::vector<RowSelection> choose(const Cell& cell, std::int64_t num_candidates,
                                   std::int64_t budget) override;

 private:
  BasisPtr basis_;
  LanePruning pruning_;
};

// The parts of MethodInfo that all four share, their traits and their selector.
Method lane_method(PruningRule rule);
// Method::traits of all four, from the parameters that they share.
void set_lane_traits(const MethodSpec& spec, Traits& traits);
// The share of lanes that all of them take.
ParamInfo dim_ratio_param();

}  // namespace kvloupe::selection
