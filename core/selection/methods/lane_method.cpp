#include "core/selection/methods/lane_method.h"

#include <memory>
#include <numeric>
#include <utility>

namespace kvloupe::selection {

LaneSelector::LaneSelector(const Setup& setup, const PruningRule& rule)
    : VisibilitySelector(setup.spec),
      basis_(setup.basis),
      pruning_(rule(setup.spec, setup.shape.head_dim)) {}

std::optional<LaneSelection> LaneSelector::lanes(const Cell& cell) {
  return prune_lanes(cell, *basis_, pruning_);
}

std::vector<RowSelection> LaneSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                               std::int64_t) {
  RowSelection all;
  all.positions.resize(static_cast<std::size_t>(num_candidates));
  std::iota(all.positions.begin(), all.positions.end(), 0);
  return std::vector<RowSelection>(static_cast<std::size_t>(num_rows(cell)), all);
}

Method lane_method(PruningRule rule) {
  Method method;
  MethodInfo& info = method.info;
  info.paper = "Santhosh G S, Prakash, Ravindran 2025, arXiv 2509.11155";
  info.needs = {"q", "k", "basis"};
  info.granularity = trace::Granularity::Lane;
  info.budget = BudgetUse::None;
  info.active_in_decode = false;
  info.basis = trace::BasisKind::Aqua;
  method.traits = set_lane_traits;
  method.make = [rule = std::move(rule)](const Setup& setup) {
    return std::make_unique<LaneSelector>(setup, rule);
  };
  return method;
}

void set_lane_traits(const MethodSpec& spec, Traits& traits) {
  traits.lanes = LaneTrait{spec.real("dim_ratio")};
  traits.basis->where = spec.text("basis");
}

ParamInfo dim_ratio_param() {
  ParamInfo param =
      float_param("dim_ratio", 0.75, 0, 1, "share of the lanes that enter each dot product");
  param.min_exclusive = true;
  return param;
}

}  // namespace kvloupe::selection
