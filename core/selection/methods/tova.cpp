// TOVA: drops the keys that the newest query attends to least (Oren et al. 2024).
//   w[j] = mean over all H heads of p_{A+chunk}[h,last,j];  keep the best B
// Every KV head of the layer keeps the same keys. per_kv_head takes the mean over the group's heads
// instead. force_last keeps the newest key whatever it scores, within B.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/remembers.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {
namespace {

class Tova final : public EvictionSelector, public Remembers {
 public:
  explicit Tova(const MethodSpec& spec)
      : EvictionSelector(spec),
        force_last_(spec.flag("force_last")),
        per_kv_head_(spec.flag("per_kv_head")) {}

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, {voter(cell)});
  }
  std::unique_ptr<Selector> copy() const override { return std::make_unique<Tova>(*this); }

 protected:
  void observe(const Cell& cell, const Pools& pools) override {
    if (per_kv_head_ || static_cast<std::int64_t>(pools.front().size()) <= budget_after(cell))
      return;
    // All heads of the layer have the same pool.
    at::Tensor sum;
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head) {
      const at::Tensor votes = last_query_votes(cell, head, pools[head]).to(at::kDouble);
      sum = sum.defined() ? sum + votes : votes;
    }
    shared_ = (sum / static_cast<double>(cell.num_q_heads())).to(at::kFloat);
  }

  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& pool, std::int64_t budget,
                      Reasons* reasons) const override {
    const at::Tensor votes = per_kv_head_ ? last_query_votes(cell, kv_head, pool.at_hand) /
                                                static_cast<double>(cell.gqa_group_size())
                                          : shared_;
    const auto staying = static_cast<std::int64_t>(pool.staying.size());
    at::Tensor forced;
    if (force_last_) {
      forced = at::zeros({staying}, votes.options().dtype(at::kByte));
      forced.narrow(0, staying - 1, 1).fill_(1);
    }
    const at::Tensor scores = votes.narrow(1, votes.size(1) - staying, staying);
    if (reasons != nullptr) reasons->scores = on_host<float>(scores);
    Survivors survivors{{}, keep_best_rows(scores, budget, forced)};
    if (force_last_ && budget > 0) survivors.row.forced = {pool.staying.back()};
    return survivors;
  }

 private:
  static std::int32_t voter(const Cell& cell) { return latest_rows(1, cell.chunk_len).front(); }

  // Sum over the group's heads of that row's p over the pool, [1, pool].
  static at::Tensor last_query_votes(const Cell& cell, std::int64_t kv_head,
                                     std::span<const std::int32_t> pool) {
    const std::int32_t row = voter(cell);
    return reduce_probabilities(in_one_set(sets_over_pool(cell, kv_head, {&row, 1}, pool)),
                                gather_keys(cell, kv_head, pool), ColumnReduce::Sum);
  }

  bool force_last_;
  bool per_kv_head_;
  at::Tensor shared_;  // w of the pool observed last, [1, pool]
};

}  // namespace

std::unique_ptr<Selector> make_tova(const Setup& setup) {
  return std::make_unique<Tova>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_tova(Method& method) {
  method.title = "TOVA";
  method.paper_spec = "tova:budget_tokens=1024";
  method.deviation =
      "in the prompt it evicts once after every chunk, by the chunk's last query, not once after "
      "the whole prompt or after every token; force_last=0 is the repository's rule";
  method.summary =
      "Keeps the keys that the newest query attends to most, the same in every KV head.";
  method.paper = "Oren et al. 2024, arXiv 2401.06104";
  method.evidence =
      "repository schwartz-lab-NLP/TOVA, tova_cache.py; the forced newest key as in kvpress";
  method.needs = {"q", "k"};
  method.state_action = trace::StateAction::Eviction;
  method.params = {
      flag_param("force_last", true, "keep the newest key whatever it scores, within the budget"),
      flag_param("per_kv_head", false, "every KV head keeps its own keys, by its group's heads"),
  };
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.samples_rows = true;
    traits.decides_by_layer = !spec.flag("per_kv_head");
  };
}

}  // namespace kvloupe::selection

#endif
