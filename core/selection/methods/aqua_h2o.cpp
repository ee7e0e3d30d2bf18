// AQUA-H2O: heavy hitters by pruned scores (Santhosh G S et al. 2025, section 8.3; H2O: Zhang et al.
// 2023). AQUA scores -> softmax over alive + chunk -> accumulate -> evict:
//   acc[g,j] += sum over the chunk's rows and the group's heads of softmax(S~ / sqrt(d))
//   B = max(1, floor(token_ratio * T)): the newest floor(B * recent_ratio), and the best of the rest
// The mean over the group's heads, which heavy_hitters.h takes, ranks alike.
#include "core/selection/methods/lane_method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/base/error.h"
#include "core/base/rounded_down.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/eviction/heavy_hitters.h"
#include "core/selection/methods/lane_selector.h"
#include "core/selection/remembers.h"

#include <algorithm>
#include <map>

namespace kvloupe::selection {
namespace {

class AquaH2o final : public EvictionSelector, public Remembers {
 public:
  explicit AquaH2o(const Setup& setup)
      : EvictionSelector(setup.spec),
        basis_(setup.basis),
        pruning_(pruning_of(setup, LaneChoice::LargestOfQuery, setup.shape.head_dim)),
        hitters_(setup.spec.real("recent_ratio"), false) {}
  std::unique_ptr<Selector> copy() const override { return std::make_unique<AquaH2o>(*this); }

 protected:
  std::optional<PrunedLanes> lanes(const Cell& cell) override {
    PrunedLanes pruned = prune_lanes(cell, basis_, pruning_);
    of_chunk_[cell.layer] = pruned.scores;
    return pruned;
  }

  void observe(const Cell& cell, const Pools& pools) override {
    // The lanes that the chunk was attended by.
    const auto found = of_chunk_.find(cell.layer);
    KVLOUPE_CHECK(found != of_chunk_.end());
    const LaneScores lanes = std::move(found->second);
    of_chunk_.erase(found);
    Pools past = pools;
    for (auto& pool : past) pool.resize(pool.size() - static_cast<std::size_t>(cell.chunk_len));
    const auto keys = attention::gather_lanes(lanes.keys, cell.v, cell.chunk_len, past);
    hitters_.add(cell, pools, attention::gathered_mass(lanes.queries, keys, cell.softmax));
  }

  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& pool, std::int64_t budget,
                      Reasons* reasons) const override {
    return {hitters_.survivors(cell, kv_head, pool.staying, budget,
                               reasons != nullptr ? &reasons->scores : nullptr)};
  }

  std::int64_t capacity(std::int64_t num_tokens) const override {
    const double share = rounded_down(spec().real("token_ratio") * static_cast<double>(num_tokens));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(share));
  }

 private:
  BasisPtr basis_;
  LanePruning pruning_;
  HeavyHitters hitters_;
  std::map<int, LaneScores> of_chunk_;  // of a layer's chunk, from its selection to its eviction
};

}  // namespace

std::unique_ptr<Selector> make_aqua_h2o(const Setup& setup) {
  return std::make_unique<AquaH2o>(setup);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_aqua_h2o(Method& method) {
  make_lane_method(method);
  method.title = "AQUA-H2O";
  method.paper_spec = "aqua_h2o:dim_ratio=0.75,token_ratio=0.5";
  method.deviation =
      "evicts after every chunk of the prompt; keys are evicted per KV head by the sum over the "
      "group's query heads; the paper does not say how token_ratio splits into heavy hitters and "
      "recents, here halves unless recent_ratio says otherwise; AQUA's own choices are those of "
      "aqua";
  method.summary =
      "Keeps the keys that received most attention so far and the most recent ones, with attention "
      "computed in each query's strongest directions.";
  method.evidence = "section 8.3 and Table 2; H2O's real eviction, FMInference/H2O";
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    set_lane_traits(spec, traits);
    traits.cache_share = spec.real("token_ratio");
  };
  method.state_action = trace::StateAction::Eviction;
  ParamInfo token_ratio =
      float_param("token_ratio", 0.5, 0, 1, "share of all tokens seen that stays cached");
  token_ratio.min_exclusive = true;
  method.params = {
      dim_ratio_param(), basis_param(), token_ratio,
      float_param("recent_ratio", 0.5, 0, 1, "share of the kept keys that are the newest ones")};
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes = std::int64_t{shape.head_dim} * shape.head_dim, .words_per_kept = 1};
  };
}

}  // namespace kvloupe::selection

#endif
