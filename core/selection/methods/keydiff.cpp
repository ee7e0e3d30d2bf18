// KeyDiff: keeps the keys least like the average key; no queries (Park et al. 2025).
//   mu[g]      = mean_j K[g,j] / |K[g,j]|
//   score[g,j] = -cos(mu[g], K[g,j])
// evict:  mu and the scores over the survivors and the chunk.
// select: mu over [0, T), candidates [0, P).
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/selection/cell_rows.h"
#include "core/selection/eviction_selector.h"
#include "core/selection/kernels.h"
#include "core/selection/ranking.h"
#include "core/selection/visibility_selector.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::selection {
namespace {

constexpr double kNormaliseEpsilon = 1e-12;
constexpr double kCosineEpsilon = 1e-8;

// Scores of the first num_scored of num_keys keys; all of them enter the mean.
std::vector<float> difference_scores(const float* keys, std::int64_t num_keys,
                                     std::int64_t num_scored, std::int64_t dim) {
  std::vector<float> lengths(static_cast<std::size_t>(num_keys));
  norms(keys, num_keys, dim, lengths.data());

  std::vector<double> mean(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const double length = std::max(static_cast<double>(lengths[key]), kNormaliseEpsilon);
    for (std::int64_t i = 0; i < dim; ++i)
      mean[i] += static_cast<double>(keys[key * dim + i]) / length;
  }
  double square = 0;
  std::vector<float> mean_row;
  for (const double sum : mean) {
    const double value = sum / static_cast<double>(num_keys);
    square += value * value;
    mean_row.push_back(static_cast<float>(value));
  }
  const double mean_norm = std::max(std::sqrt(square), kCosineEpsilon);

  std::vector<float> scores(static_cast<std::size_t>(num_scored));
  dot_products(mean_row.data(), keys, num_scored, dim, scores.data());
  for (std::int64_t key = 0; key < num_scored; ++key) {
    const double length = std::max(static_cast<double>(lengths[key]), kCosineEpsilon);
    scores[key] = static_cast<float>(-static_cast<double>(scores[key]) / (mean_norm * length));
  }
  return scores;
}

class KeydiffSelect final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  std::vector<float> scores(const Cell& cell, std::int64_t num_candidates) override {
    std::vector<float> all(static_cast<std::size_t>(cell.num_kv_heads() * num_candidates));
    for_each_item(cell.num_kv_heads(), 4 * cell.kv_len() * cell.k.size(2), [&](std::int64_t head) {
      const auto head_scores =
          difference_scores(keys_of(cell, head), cell.kv_len(), num_candidates, cell.k.size(2));
      std::copy(head_scores.begin(), head_scores.end(), all.begin() + head * num_candidates);
    });
    return all;
  }
};

class KeydiffEvict final : public EvictionSelector {
 public:
  using EvictionSelector::EvictionSelector;

 protected:
  SelectedRow survivors(const Cell& cell, std::int64_t kv_head, const Pool& at_hand,
                        std::int64_t budget) const override {
    const std::span<const std::int32_t> pool = at_hand.staying;
    const auto num_keys = static_cast<std::int64_t>(pool.size());
    const std::vector<float> keys = gather_keys(cell, kv_head, pool);
    const Kept kept =
        keep_best(difference_scores(keys.data(), num_keys, num_keys, cell.k.size(2)), budget);
    return {members_at(pool, kept.indices), {}, kept.ties_at_cut};
  }
};

}  // namespace

std::unique_ptr<Selector> make_keydiff(const Setup& setup) {
  if (setup.spec.traits().evicts()) return std::make_unique<KeydiffEvict>(setup.spec);
  return std::make_unique<KeydiffSelect>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // what is known of it

namespace kvloupe::selection {

Method keydiff_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "keydiff";
  info.title = "KeyDiff";
  info.paper = "Park et al. 2025, arXiv 2504.15364";
  info.evidence = "kvpress KeyDiffPress and BlockPress; the mean of unit keys";
  info.deviation = "state=select is an addition";
  info.summary = "Keeps the keys that differ most from the average key, without any query.";
  info.needs = {"k"};
  info.state_action = trace::StateAction::Eviction;
  info.active_in_decode = false;
  info.params = {
      enum_param("state", {"evict", "select"}, "evict for good, or select anew for every chunk")};
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    if (spec.text("state") == "select") traits.state_action = trace::StateAction::Visibility;
  };
  return method;
}

}  // namespace kvloupe::selection

#endif
