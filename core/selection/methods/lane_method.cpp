#include "core/selection/methods/lane_method.h"

namespace kvloupe::selection {

void make_lane_method(Method& method) {
  method.paper = "Santhosh G S, Prakash, Ravindran 2025, arXiv 2509.11155";
  method.needs = {"q", "k", "basis"};
  method.granularity = trace::Granularity::Lane;
  method.budget = BudgetUse::None;
  method.basis = trace::BasisKind::Aqua;
  method.traits = set_lane_traits;
  // Rotated keys take the place of K, so that the directions alone are held beside them.
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes = std::int64_t{shape.head_dim} * shape.head_dim};
  };
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
