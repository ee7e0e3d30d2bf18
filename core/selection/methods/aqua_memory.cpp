// AQUA-Memory: the least varied lanes are dropped from the cache for good, then AQUA on the rest
// (Santhosh G S et al. 2025, section 8.4).
//   d' = d - floor(slice_ratio * d)               lanes [0, d') of P are cached
//   k  = max(1, floor(dim_ratio * d'))            the largest of |q^[0, d')|, per query head and row
//   slice_values=1: lanes [0, d') of v P_v are cached, P_v of the values alone; the output is
//                   (p v P_v[:, :d']) P_v[:, :d']^T
//   share of multiplications E = (1 - slice_ratio) * dim_ratio
#include "core/selection/methods/lane_method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/methods/lane_selector.h"

namespace kvloupe::selection {

std::unique_ptr<Selector> make_aqua_memory(const Setup& setup) {
  LanePruning pruning =
      pruning_of(setup, LaneChoice::LargestOfQuery,
                 lanes_stored(setup.spec.real("slice_ratio"), setup.shape.head_dim));
  pruning.slice_values = setup.spec.flag("slice_values");
  return std::make_unique<LaneSelector>(setup, pruning);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_aqua_memory(Method& method) {
  make_lane_method(method);
  method.title = "AQUA-Memory";
  method.paper_spec = "aqua_memory:dim_ratio=0.75,slice_ratio=0.1,slice_values=1";
  method.deviation =
      "the paper slices keys and values, but defines no projection of values: slice_values=0 "
      "slices "
      "keys alone and saves half of slice_ratio of the KV cache, slice_values=1 slices values in "
      "a basis of their own (uncentred SVD of V, per KV head) and saves all of it; the lanes "
      "dropped "
      "and k round down, at least one lane stays";
  method.summary =
      "Drops no key: the weakest directions leave the cache for good, then each query uses its "
      "strongest of the rest.";
  method.evidence =
      "section 8.4 and Table 3: E_ratio = (1 - slice_ratio) * dim_ratio is the share of a key's "
      "lanes that enters each product, 0.675 by default";
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    set_lane_traits(spec, traits);
    traits.lanes->sliced = spec.real("slice_ratio");
    traits.lanes->slices_values = spec.flag("slice_values");
  };
  method.metadata = [](const MethodSpec& spec, const ModelShape& shape) {
    const std::int64_t bases = spec.flag("slice_values") ? 2 : 1;
    return Metadata{.lanes = bases * shape.head_dim * shape.head_dim};
  };
  method.params = {
      dim_ratio_param(),
      float_param("slice_ratio", 0.1, 0, 0.99,
                  "share of the lanes dropped from the cached keys for good: so much of the "
                  "keys' memory, half of it of the KV cache"),
      basis_param(),
      flag_param("slice_values", false,
                 "1: as many lanes are dropped from the cached values, in a basis of their own")};
}

}  // namespace kvloupe::selection

#endif
