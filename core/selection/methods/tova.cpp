// TOVA: drops the keys that the newest query attends to least (Oren et al. 2024).
//   w[j] = mean over all H heads of p_{A+chunk}[h,last,j];  keep the best B
// Every KV head of the layer keeps the same keys. per_kv_head takes the mean over the group's heads
// instead. force_last keeps the newest key whatever it scores, within B.
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/selection/cell_rows.h"
#include "core/selection/eviction_selector.h"
#include "core/selection/kernels.h"
#include "core/selection/ranking.h"

namespace kvloupe::selection {
namespace {

class Tova final : public EvictionSelector {
 public:
  explicit Tova(const MethodSpec& spec)
      : EvictionSelector(spec),
        force_last_(spec.flag("force_last")),
        per_kv_head_(spec.flag("per_kv_head")) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, {voter(cell)});
  }

 protected:
  void observe(const Cell& cell, const Pools& pools) override {
    if (per_kv_head_ || static_cast<std::int64_t>(pools.front().size()) <= budget_after(cell))
      return;
    // All heads of the layer have the same pool.
    std::vector<double> sums(pools.front().size(), 0.0);
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head) {
      const std::vector<float> votes = last_query_votes(cell, head, pools[head]);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(votes[i]);
    }
    shared_.clear();
    for (const double sum : sums)
      shared_.push_back(static_cast<float>(sum / static_cast<double>(cell.num_q_heads())));
  }

  SelectedRow survivors(const Cell& cell, std::int64_t kv_head, const Pool& pool,
                        std::int64_t budget) const override {
    std::vector<float> votes =
        per_kv_head_ ? last_query_votes(cell, kv_head, pool.at_hand) : shared_;
    votes.erase(votes.begin(), votes.end() - static_cast<std::ptrdiff_t>(pool.staying.size()));
    std::vector<std::uint8_t> forced(votes.size(), 0);
    forced.back() = force_last_ ? 1 : 0;
    const Kept kept = keep_best(votes, budget, forced);
    SelectedRow row{members_at(pool.staying, kept.indices), {}, kept.ties_at_cut};
    if (kept.forced > 0) row.forced = {pool.staying.back()};
    return row;
  }

 private:
  static std::int32_t voter(const Cell& cell) { return latest_rows(1, cell.chunk_len).front(); }

  // Sum over the group's heads of that row's p over the pool.
  static std::vector<float> last_query_votes(const Cell& cell, std::int64_t kv_head,
                                             std::span<const std::int32_t> pool) {
    const std::int64_t group = cell.gqa_group_size();
    const auto num_keys = static_cast<std::int64_t>(pool.size());
    const std::int64_t hidden = num_hidden(pool, cell.softmax, cell.kv_len() - 1);
    ChunkRows rows;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      rows.add(query_row(cell, head, voter(cell)), cell.softmax, head, hidden, num_keys);
    const std::vector<float> keys = gather_keys(cell, kv_head, pool);
    std::vector<float> votes(pool.size(), 0.0F);
    reduce_probabilities(pack_rows(rows.pointers, cell.q.size(2)), rows.visible, keys.data(),
                         num_keys, rows.softmax(cell.softmax), ColumnReduce::Sum, votes.data());
    return votes;
  }

  bool force_last_;
  bool per_kv_head_;
  std::vector<float> shared_;  // w of the pool observed last
};

}  // namespace

std::unique_ptr<Selector> make_tova(const Setup& setup) {
  return std::make_unique<Tova>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // what is known of it

namespace kvloupe::selection {

Method tova_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "tova";
  info.title = "TOVA";
  info.paper = "Oren et al. 2024, arXiv 2401.06104";
  info.evidence =
      "repository schwartz-lab-NLP/TOVA, tova_cache.py; the forced newest key as in kvpress";
  info.deviation =
      "in the prompt it evicts once after every chunk, by the chunk's last query, not once after "
      "the whole prompt or after every token; force_last=0 is the repository's rule";
  info.summary = "Keeps the keys that the newest query attends to most, the same in every KV head.";
  info.needs = {"q", "k"};
  info.state_action = trace::StateAction::Eviction;
  info.params = {
      flag_param("force_last", true, "keep the newest key whatever it scores, within the budget"),
      flag_param("per_kv_head", false, "every KV head keeps its own keys, by its group's heads"),
  };
  method.traits = [](const MethodSpec&, Traits& traits) { traits.samples_rows = true; };
  return method;
}

}  // namespace kvloupe::selection

#endif
