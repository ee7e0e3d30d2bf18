// Static slicing: AQUA's baseline "Top-K by dimension" (Santhosh G S et al. 2025, section 7.1).
//   I = {0 .. k-1} for every query: the leading principal lanes; else as AQUA, with the same P.
#include "core/selection/methods/lane_method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/methods/lane_selector.h"

namespace kvloupe::selection {

std::unique_ptr<Selector> make_static_slicing(const Setup& setup) {
  return std::make_unique<LaneSelector>(
      setup, pruning_of(setup, LaneChoice::Leading, setup.shape.head_dim));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_static_slicing(Method& method) {
  make_lane_method(method);
  method.title = "Static slicing";
  method.paper_spec = "static_slicing:dim_ratio=0.75";
  method.deviation =
      "the paper draws its loss on vectors only; here the sliced scores are attended to; k rounds "
      "dim_ratio * head_dim down, at least 1";
  method.summary =
      "Drops no key: all queries are compared in the same leading directions, whatever they ask.";
  method.evidence = "section 7.1, the baseline Top-K by Dimension (Slicing) of Figures 2 to 4";
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    set_lane_traits(spec, traits);
    traits.lanes->leading = true;
  };
  method.params = {dim_ratio_param(), basis_param()};
}

}  // namespace kvloupe::selection

#endif
