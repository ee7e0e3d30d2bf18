#include "core/selection/methods/lane_method.h"

namespace kvloupe::selection {

Method lane_method() {
  Method method;
  MethodInfo& info = method.info;
  info.paper = "Santhosh G S, Prakash, Ravindran 2025, arXiv 2509.11155";
  info.needs = {"q", "k", "basis"};
  info.granularity = trace::Granularity::Lane;
  info.budget = BudgetUse::None;
  info.basis = trace::BasisKind::Aqua;
  method.traits = set_lane_traits;
  // Rotated keys take the place of K, so that the directions alone are held beside them.
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes = std::int64_t{shape.head_dim} * shape.head_dim};
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
