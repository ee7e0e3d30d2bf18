// LessIsMore (arXiv 2508.07101) on a chunk: like TidalDecode, but all heads share one set, the best
// keys of every query head in turn, with sinks and the newest keys.
//   k_mid = floor(B (1 - recent_ratio)),  recent = B - k_mid; the sinks are taken out of recent, and
//   sinks are not kept if recent < sink_tokens
//   zbar[h,j] = mean over the chunk's rows t of z[h,t,j],  z the scaled logits
//   each query head ranks the candidates [sinks, P - recent) by zbar
//   union, rank by rank: every head's first in head order, then every head's second, ..., each key
//   once, until k_mid are found
//   set = sinks, union, the newest `recent`, for all KV heads, until the next selection layer
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/methods/cross_layer_selector.h"
#include "core/selection/remembers.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace kvloupe::selection {
namespace {

class LessIsMore final : public CrossLayerSelector, public Remembers {
 public:
  using CrossLayerSelector::CrossLayerSelector;
  std::unique_ptr<Selector> copy() const override { return std::make_unique<LessIsMore>(*this); }

 protected:
  std::vector<SelectedRow> choose_anew(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) const override {
    const Shares shares = shares_of(cell, num_candidates, budget);
    std::vector<std::int32_t> middle;
    for (const auto& [position, turn] : named_in_turn(cell, shares, shares.middle))
      middle.push_back(position);
    std::sort(middle.begin(), middle.end());

    const std::vector<std::int32_t> first = range(0, shares.sinks);
    const std::vector<std::int32_t> last = range(shares.newest, num_candidates);
    SelectedRow row{first, first};
    row.positions.insert(row.positions.end(), middle.begin(), middle.end());
    row.positions.insert(row.positions.end(), last.begin(), last.end());
    row.forced.insert(row.forced.end(), last.begin(), last.end());
    return std::vector(static_cast<std::size_t>(cell.num_kv_heads()), row);
  }

  // The score of a key is minus the turn in which it is first named.
  std::vector<RowEvidence> evidence_anew(const Cell& cell, std::int64_t num_candidates,
                                         std::int64_t budget) const override {
    const Shares shares = shares_of(cell, num_candidates, budget);
    const std::vector<float> unscored(static_cast<std::size_t>(num_candidates),
                                      std::numeric_limits<float>::quiet_NaN());
    RowEvidence row = evidence_of_keys(0, unscored, budget);
    row.forced.assign(row.scores.size(), 1);
    for (const auto& [position, turn] : named_in_turn(cell, shares, shares.newest - shares.sinks)) {
      row.scores[position] = static_cast<double>(-turn);
      row.forced[position] = 0;
    }
    return std::vector(static_cast<std::size_t>(cell.num_kv_heads()), row);
  }

 private:
  // How the budget is shared out: the sinks [0, sinks), `middle` keys of [sinks, newest), and the rest.
  struct Shares {
    std::int64_t sinks = 0, middle = 0, newest = 0;
  };
  Shares shares_of(const Cell& cell, std::int64_t num_candidates, std::int64_t budget) const {
    Shares shares;
    shares.middle = static_cast<std::int64_t>(
        rounded_down(static_cast<double>(budget) * (1 - spec().real("recent_ratio"))));
    const std::int64_t recent = budget - shares.middle;
    const std::int64_t wanted = spec().integer("sink_tokens");
    if (recent >= wanted)  // a window hides the text's first keys
      shares.sinks = std::max<std::int64_t>(0, wanted - cell.first_key);
    shares.newest = num_candidates - (recent - shares.sinks);
    return shares;
  }

  // The first `count` keys of the middle in the order in which the heads name them, each with its turn.
  static std::vector<std::pair<std::int32_t, std::int64_t>> named_in_turn(const Cell& cell,
                                                                          const Shares& shares,
                                                                          std::int64_t count) {
    const std::int64_t heads = cell.num_q_heads();
    const at::Tensor scores = logit_scores(cell, cell.k, mean_query_rows(cell), shares.newest);
    const std::vector<std::vector<std::int32_t>> orders = rows_on_host(
        ranked_rows(scores.narrow(1, shares.sinks, shares.newest - shares.sinks), count));
    std::vector<std::pair<std::int32_t, std::int64_t>> named;
    std::vector<bool> taken(static_cast<std::size_t>(shares.newest), false);
    for (std::int64_t turn = 0; static_cast<std::int64_t>(named.size()) < count; ++turn) {
      const auto position =
          static_cast<std::int32_t>(shares.sinks) + orders[turn % heads][turn / heads];
      if (!taken[position]) named.emplace_back(position, turn);
      taken[position] = true;
    }
    return named;
  }
};

}  // namespace

std::unique_ptr<Selector> make_less_is_more(const Setup& setup) {
  return std::make_unique<LessIsMore>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it
#include "core/selection/methods/cross_layer.h"

namespace kvloupe::selection {

void describe_less_is_more(Method& method) {
  method.title = "LessIsMore";
  method.paper_spec = "less_is_more:budget_tokens=1024";
  method.deviation =
      "applied to prefill chunks, from the mean over the chunk's rows, where the paper selects for "
      "one decoded token; recent_ratio is the paper's share of recent keys (1 - lim_ratio in the "
      "repository's Qwen file); the correction layer defaults to 0.4 of the model's layers; the "
      "chunk is visible outside the budget";
  method.summary =
      "Finds keys that all heads vote for in two layers and reuses them in the layers above.";
  method.paper =
      "Yang et al.: Less is more: training-free sparse attention with global locality for "
      "efficient "
      "reasoning, 2025, arXiv 2508.07101";
  method.evidence =
      "DerrickYLJ/LessIsMore, the Hugging Face path for Qwen; on a chunk as in QuoKA "
      "(arXiv 2602.08722, section 4)";
  method.needs = {"q", "k"};
  make_cross_layer_method(method);
  method.params.push_back(int_param("sink_tokens", 4, 0, 1 << 20,
                                    "first keys that stay; none if the recent keys are fewer"));
  method.params.push_back(
      float_param("recent_ratio", 0.25, 0, 1, "share of the budget for sinks and newest keys"));
  // The sinks join at once, and push as many of the newest keys out.
  method.traits = [](const MethodSpec&, Traits& traits) { traits.grows_with_budget = false; };
}

}  // namespace kvloupe::selection

#endif
