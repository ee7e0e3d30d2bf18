// SnapKV: the last queries of the chunk vote for earlier keys (Li et al. 2024).
//   p[h,t,j]   softmax of the last w' = min(window, m) rows over all keys at hand, causal
//   vote[h,j]  = sum over these rows of p[h,t,j]; the window's own columns are dropped, the rest is
//                not renormalised
//   score[g,j] = mean over the group's heads of pool(vote[h,.])[j]
// evict:  keys at hand are the survivors and the chunk; the w' newest stay, and the best B - w' of
//         the rest, pooled in their order; B <= w' keeps the newest B.
// select: keys at hand are all; the best B of [0, P), pooled over [0, P).
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/selection/cell_rows.h"
#include "core/selection/eviction_selector.h"
#include "core/selection/kernels.h"
#include "core/selection/pooling.h"
#include "core/selection/ranking.h"
#include "core/selection/visibility_selector.h"

#include <algorithm>

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

// Pooled votes for `num_scored` keys from first_scored on of those at `positions`, which end with the
// chunk.
std::vector<float> pooled_votes(const Cell& cell, std::int64_t kv_head, const float* keys,
                                std::span<const std::int32_t> positions, std::int64_t first_scored,
                                std::int64_t num_scored, const SnapkvOptions& options) {
  const auto num_keys = static_cast<std::int64_t>(positions.size());
  const std::int64_t group = cell.gqa_group_size();
  std::vector<double> sums(static_cast<std::size_t>(num_scored), 0.0);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    ChunkRows rows;
    for (const std::int32_t row : options.voters(cell))
      rows.add(query_row(cell, head, row), cell.softmax, head,
               num_hidden(positions, cell.softmax, cell.past_len + row),
               num_keys - cell.chunk_len + row + 1);
    std::vector<float> votes(static_cast<std::size_t>(num_keys), 0.0F);
    reduce_probabilities(pack_rows(rows.pointers, cell.q.size(2)), rows.visible, keys, num_keys,
                         rows.softmax(cell.softmax), ColumnReduce::Sum, votes.data());
    votes.erase(votes.begin(), votes.begin() + first_scored);
    votes.resize(static_cast<std::size_t>(num_scored));
    const std::vector<float> pooled = pool_same(votes, options.kernel, options.pool);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(pooled[i]);
  }
  std::vector<float> scores;
  scores.reserve(sums.size());
  for (const double sum : sums)
    scores.push_back(static_cast<float>(sum / static_cast<double>(group)));
  return scores;
}

class SnapkvSelect final : public ScoringSelector {
 public:
  explicit SnapkvSelect(const MethodSpec& spec) : ScoringSelector(spec), options_(spec) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, options_.voters(cell));
  }

 protected:
  std::vector<float> scores(const Cell& cell, std::int64_t num_candidates) override {
    std::vector<float> all(static_cast<std::size_t>(cell.num_kv_heads() * num_candidates));
    const std::int64_t rows = cell.gqa_group_size() * std::min(options_.window, cell.chunk_len);
    const std::int64_t operations = rows * cell.kv_len() * (cell.q.size(2) + 16);
    const std::vector<std::int32_t> positions = range(0, cell.kv_len());
    for_each_item(cell.num_kv_heads(), operations, [&](std::int64_t head) {
      const auto head_scores =
          pooled_votes(cell, head, keys_of(cell, head), positions, 0, num_candidates, options_);
      std::copy(head_scores.begin(), head_scores.end(), all.begin() + head * num_candidates);
    });
    return all;
  }

 private:
  SnapkvOptions options_;
};

class SnapkvEvict final : public EvictionSelector {
 public:
  explicit SnapkvEvict(const MethodSpec& spec) : EvictionSelector(spec), options_(spec) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, options_.voters(cell));
  }

 protected:
  SelectedRow survivors(const Cell& cell, std::int64_t kv_head, const Pool& keys_at_hand,
                        std::int64_t budget) const override {
    const auto [at_hand, pool] = keys_at_hand;
    const std::int64_t window = std::min(options_.window, cell.chunk_len);
    SelectedRow row;
    row.forced.assign(pool.end() - std::min(budget, window), pool.end());
    if (budget > window) {
      const auto left = static_cast<std::int64_t>(at_hand.size() - pool.size());
      const auto num_scored = static_cast<std::int64_t>(pool.size()) - window;
      const std::vector<float> keys = gather_keys(cell, kv_head, at_hand);
      const Kept kept =
          keep_best(pooled_votes(cell, kv_head, keys.data(), at_hand, left, num_scored, options_),
                    budget - window);
      row.positions = members_at(pool, kept.indices);
      row.ties_at_cut = kept.ties_at_cut;
    }
    row.positions.insert(row.positions.end(), row.forced.begin(), row.forced.end());
    return row;
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

#else  // what is known of it

namespace kvloupe::selection {

Method snapkv_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "snapkv";
  info.title = "SnapKV";
  info.paper = "Li et al. 2024, arXiv 2404.14469";
  info.evidence =
      "repository FasterDecoding/SnapKV, snapkv_utils.py; group mean after pooling as in kvpress";
  info.deviation =
      "evicts after every chunk instead of once after the prompt, and pools over the survivors in "
      "their order; a chunk shorter than the window votes with all its rows; one set per KV head, "
      "where the repository keeps one per query head; the defaults are those of its LongBench "
      "runs; "
      "state=select is an addition";
  info.summary = "Keeps the keys that the chunk's last queries attend to, and these queries' own.";
  info.needs = {"q", "k"};
  info.state_action = trace::StateAction::Eviction;
  info.active_in_decode = false;
  info.params = {
      int_param("window", 32, 1, 1 << 20, "last rows of the chunk that vote"),
      int_param("kernel", 7, 1, 4095, "width of the pooling of votes, odd"),
      enum_param("pool", {"max", "avg"}, "pooling of votes along the keys"),
      enum_param("state", {"evict", "select"}, "evict for good, or select anew for every chunk"),
  };
  info.params[1].odd = true;
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    if (spec.text("state") == "select") traits.state_action = trace::StateAction::Visibility;
    traits.samples_rows = true;
  };
  return method;
}

}  // namespace kvloupe::selection

#endif
