// KeyDiff: keeps the keys least like the average key; no queries (Park et al. 2025).
//   mu[g]      = mean_j K[g,j] / |K[g,j]|
//   score[g,j] = -cos(mu[g], K[g,j])
// evict:  mu and the scores over the survivors and the chunk.
// select: mu over [0, T), candidates [0, P).
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/remembers.h"
#include "core/selection/visibility_selector.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::selection {
namespace {

class KeydiffSelect final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    return difference_scores(cell.k, num_candidates);
  }
};

class KeydiffEvict final : public EvictionSelector, public Remembers {
 public:
  using EvictionSelector::EvictionSelector;
  std::unique_ptr<Selector> copy() const override { return std::make_unique<KeydiffEvict>(*this); }

 protected:
  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& at_hand,
                      std::int64_t budget, Reasons* reasons) const override {
    const at::Tensor keys = gather_keys(cell, kv_head, at_hand.staying);
    const at::Tensor scores = difference_scores(keys, keys.size(1));
    if (reasons != nullptr) reasons->scores = on_host<float>(scores);
    return {{}, keep_best_rows(scores, budget)};
  }
};

}  // namespace

std::unique_ptr<Selector> make_keydiff(const Setup& setup) {
  if (setup.spec.traits().evicts()) return std::make_unique<KeydiffEvict>(setup.spec);
  return std::make_unique<KeydiffSelect>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_keydiff(Method& method) {
  method.title = "KeyDiff";
  method.paper_spec = "keydiff:budget_tokens=1024";
  method.deviation = "state=select is an addition";
  method.summary = "Keeps the keys that differ most from the average key, without any query.";
  method.paper = "Park et al. 2025, arXiv 2504.15364";
  method.evidence = "kvpress KeyDiffPress and BlockPress; the mean of unit keys";
  method.needs = {"k"};
  method.state_action = trace::StateAction::Eviction;
  method.active_in_decode = false;
  method.params = {
      enum_param("state", {"evict", "select"}, "evict for good, or select anew for every chunk")};
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    if (spec.text("state") == "select") traits.state_action = trace::StateAction::Visibility;
  };
}

}  // namespace kvloupe::selection

#endif
