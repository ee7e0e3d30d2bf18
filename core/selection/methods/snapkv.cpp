// SnapKV: the last queries of the chunk vote for earlier keys (Li et al. 2024).
//   p[h,t,j]   softmax of the last w' = min(window, m) rows over all keys at hand, causal
//   vote[h,j]  = sum over these rows of p[h,t,j]; the window's own columns are dropped, the rest is
//                not renormalised
//   score[g,j] = mean over the group's heads of pool(vote[h,.])[j]
// evict:  keys at hand are the survivors and the chunk; the w' newest stay, and the best B - w' of
//         the rest, pooled in their order; B <= w' keeps the newest B.
// select: keys at hand are all; the best B of [0, P), pooled over [0, P).
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/eviction/pooling.h"
#include "core/selection/remembers.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace kvloupe::selection {
namespace {

struct SnapkvOptions {
  explicit SnapkvOptions(const MethodSpec& spec)
      : window(spec.integer("window")),
        kernel(spec.integer("kernel")),
        pool(spec.text("pool") == "avg" ? PoolKind::Average : PoolKind::Max) {}
  std::int64_t window;
  std::int64_t kernel;
  PoolKind pool;

  // The rows that vote.
  std::vector<std::int32_t> voters(const Cell& cell) const {
    return latest_rows(window, cell.chunk_len);
  }
};

// Pooled votes of each KV head for `count` keys from `first` on: votes [q heads, keys].
at::Tensor pooled_votes(const at::Tensor& votes, std::int64_t group, std::int64_t first,
                        std::int64_t count, const SnapkvOptions& options) {
  return pool_same(votes.narrow(1, first, count), options.kernel, options.pool)
      .view({-1, group, count})
      .mean({1}, false, at::kDouble)
      .to(at::kFloat);
}

class SnapkvSelect final : public ScoringSelector {
 public:
  explicit SnapkvSelect(const MethodSpec& spec) : ScoringSelector(spec), options_(spec) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, options_.voters(cell));
  }

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    const at::Tensor votes = reduce_probabilities(
        sets_over_cell(cell, cell.q, options_.voters(cell)), cell.k, ColumnReduce::Sum);
    return pooled_votes(votes, cell.gqa_group_size(), 0, num_candidates, options_);
  }

 private:
  SnapkvOptions options_;
};

class SnapkvEvict final : public EvictionSelector, public Remembers {
 public:
  explicit SnapkvEvict(const MethodSpec& spec) : EvictionSelector(spec), options_(spec) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, options_.voters(cell));
  }
  std::unique_ptr<Selector> copy() const override { return std::make_unique<SnapkvEvict>(*this); }

 protected:
  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& keys_at_hand,
                      std::int64_t budget, Reasons* reasons) const override {
    const auto [at_hand, pool] = keys_at_hand;
    const std::int64_t window = std::min(options_.window, cell.chunk_len);
    Survivors survivors;
    survivors.row.forced.assign(pool.end() - std::min(budget, window), pool.end());
    survivors.row.positions = survivors.row.forced;
    if (budget > window) {
      const auto left = static_cast<std::int64_t>(at_hand.size() - pool.size());
      const auto num_scored = static_cast<std::int64_t>(pool.size()) - window;
      const at::Tensor votes =
          reduce_probabilities(sets_over_pool(cell, kv_head, options_.voters(cell), at_hand),
                               gather_keys(cell, kv_head, at_hand), ColumnReduce::Sum);
      const at::Tensor scores = pooled_votes(votes, votes.size(0), left, num_scored, options_);
      if (reasons != nullptr) {
        reasons->scores = on_host<float>(scores);
        reasons->scores.resize(pool.size(), std::numeric_limits<float>::quiet_NaN());
      }
      survivors.kept = keep_best_rows(scores, budget - window);
    }
    return survivors;
  }

 private:
  SnapkvOptions options_;
};

}  // namespace

std::unique_ptr<Selector> make_snapkv(const Setup& setup) {
  if (setup.spec.traits().evicts()) return std::make_unique<SnapkvEvict>(setup.spec);
  return std::make_unique<SnapkvSelect>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_snapkv(Method& method) {
  method.title = "SnapKV";
  method.paper_spec = "snapkv:budget_tokens=1024,window=32,kernel=7,pool=max";
  method.deviation =
      "evicts after every chunk instead of once after the prompt, and pools over the survivors in "
      "their order; a chunk shorter than the window votes with all its rows; one set per KV head, "
      "where the repository keeps one per query head; the defaults are those of its LongBench "
      "runs; "
      "state=select is an addition";
  method.summary =
      "Keeps the keys that the chunk's last queries attend to, and these queries' own.";
  method.paper = "Li et al. 2024, arXiv 2404.14469";
  method.evidence =
      "repository FasterDecoding/SnapKV, snapkv_utils.py; group mean after pooling as in kvpress";
  method.needs = {"q", "k"};
  method.state_action = trace::StateAction::Eviction;
  method.active_in_decode = false;
  method.params = {
      int_param("window", 32, 1, 1 << 20, "last rows of the chunk that vote"),
      int_param("kernel", 7, 1, 4095, "width of the pooling of votes, odd"),
      enum_param("pool", {"max", "avg"}, "pooling of votes along the keys"),
      enum_param("state", {"evict", "select"}, "evict for good, or select anew for every chunk"),
  };
  method.params[1].odd = true;
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    if (spec.text("state") == "select") traits.state_action = trace::StateAction::Visibility;
    traits.samples_rows = true;
  };
  set_row_count_param(method, "window");
}

}  // namespace kvloupe::selection

#endif
