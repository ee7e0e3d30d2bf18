// AQUA-Memory: the least varied lanes are dropped from the cache for good, then AQUA on the rest
// (Santhosh G S et al. 2025, section 8.4).
//   d' = d - floor(slice_ratio * d)               lanes [0, d') of P are cached
//   k  = max(1, floor(dim_ratio * d'))            the largest of |q^[0, d')|, per query head and row
//   share of multiplications E = (1 - slice_ratio) * dim_ratio
#include "core/selection/methods/lane_method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/selection/methods/lane_selector.h"

namespace kvloupe::selection {

std::unique_ptr<Selector> make_aqua_memory(const Setup& setup) {
  const std::int64_t head_dim = setup.shape.head_dim;
  const std::int64_t usable = lanes_stored(setup.spec.real("slice_ratio"), head_dim);
  return std::make_unique<LaneSelector>(
      setup, LanePruning{LaneChoice::LargestOfQuery, usable,
                         lanes_kept(setup.spec.real("dim_ratio"), usable)});
}

}  // namespace kvloupe::selection

#else  // what is known of it

namespace kvloupe::selection {

Method aqua_memory_method() {
  Method method = lane_method();
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    set_lane_traits(spec, traits);
    traits.lanes->sliced = spec.real("slice_ratio");
  };
  MethodInfo& info = method.info;
  info.id = "aqua_memory";
  info.title = "AQUA-Memory";
  info.evidence = "section 8.4 and Table 3";
  info.paper_spec = "aqua_memory:dim_ratio=0.75,slice_ratio=0.1";
  info.deviation =
      "keys alone are sliced: the paper says keys and values and claims slice_ratio of the KV "
      "cache, "
      "but defines no projection of values, so slice_ratio of the keys is saved, half of that of "
      "the "
      "KV cache; the lanes dropped and k round down, at least one lane stays";
  info.summary =
      "Drops no key: the weakest directions leave the cache for good, then each query uses its "
      "strongest of the rest.";
  info.params = {
      dim_ratio_param(),
      float_param("slice_ratio", 0.1, 0, 0.99,
                  "share of the lanes dropped from the cached keys for good: so much of the "
                  "keys' memory, half of it of the KV cache"),
      basis_param()};
  return method;
}

}  // namespace kvloupe::selection

#endif
