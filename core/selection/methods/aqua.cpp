// AQUA: attention via query magnitudes (Santhosh G S et al. 2025, section 4 and Algorithm 1).
//   q^ = q P_g(h)   k^ = k P_g                    P_g: principal directions of queries and keys
//   I  = the k largest of |q^|, for each query head and row; k = max(1, floor(dim_ratio * d))
//   S~_t = sum over c in I of q^_c k^_{t,c}       softmax of S~ / sqrt(d), all V
// No key is dropped. See lanes.h for how S~ is computed.
#include "core/selection/methods/lane_method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/methods/lane_selector.h"

namespace kvloupe::selection {

std::unique_ptr<Selector> make_aqua(const Setup& setup) {
  return std::make_unique<LaneSelector>(
      setup, pruning_of(setup, LaneChoice::LargestOfQuery, setup.shape.head_dim));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_aqua(Method& method) {
  make_lane_method(method);
  method.title = "AQUA";
  method.paper_spec = "aqua:dim_ratio=0.75";
  method.deviation =
      "k rounds dim_ratio * head_dim down, at least 1 (the paper's rounding is open); the scale "
      "stays "
      "1/sqrt(head_dim); Algorithm 1 is a decode step, here every row of a prompt chunk follows it "
      "too; "
      "the basis is fitted on 12,288 tokens of one novel unless calibrated otherwise, where the "
      "paper "
      "names sequences of 4,096 tokens of BookCorpus and not how many";
  method.summary =
      "Drops no key: each query is compared with the keys in its own strongest directions alone.";
  method.evidence = "section 4, Algorithm 1; the basis as in sections 6.1 and 6.3";
  method.params = {dim_ratio_param(), basis_param()};
}

}  // namespace kvloupe::selection

#endif
