// InfiniPot: distils a full pot of keys by novelty and by what a probe text attends to
// (Kim et al. 2024). The pot is full after every chunk; |C| = B.
//   n[j]   = -log P(x_j | what came before it), the same for all heads; n[0] = infinity
//   u[g,j] = mean over the group's heads h, sum over the probe's queries t, of
//            softmax over the pot of s * <probe_q[h,t], K[g,j]>
//   keep the best floor(novelty_ratio * B) of the pot by n, then the best of the others by u
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/attention/upload.h"
#include "core/base/error.h"
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/ranking.h"
#include "core/selection/remembers.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {
namespace {

// u of every key of the pool, [1, pool].
at::Tensor probe_votes(const Cell& cell, std::int64_t kv_head, std::span<const std::int32_t> pool) {
  const std::int64_t group = cell.gqa_group_size(), count = cell.probe_q.size(1);
  // The probe's rows stand at the positions after the chunk, and see the pool alone.
  RowSets sets =
      sets_of(cell.softmax, cell.probe_q.narrow(0, kv_head * group, group), kv_head * group);
  for (std::int64_t row = 0; row < count; ++row) {
    sets.visible.push_back(static_cast<std::int64_t>(pool.size()));
    if (cell.softmax.window > 0)
      sets.first.push_back(num_hidden(pool, cell.softmax, cell.kv_len() + row));
  }
  return reduce_probabilities(in_one_set(std::move(sets)), gather_keys(cell, kv_head, pool),
                              ColumnReduce::Sum) /
         static_cast<double>(group);
}

class Infinipot final : public EvictionSelector, public Remembers {
 public:
  explicit Infinipot(const MethodSpec& spec)
      : EvictionSelector(spec), novelty_ratio_(spec.real("novelty_ratio")) {}
  std::unique_ptr<Selector> copy() const override { return std::make_unique<Infinipot>(*this); }

 protected:
  void observe(const Cell& cell, const Pools&) override {
    KVLOUPE_CHECK(cell.probe_q.defined() && cell.probe_q.size(0) == cell.num_q_heads() &&
                  cell.probe_q.size(1) > 0 && cell.probe_q.stride(2) == 1);
    KVLOUPE_CHECK(cell.novelty.defined() && cell.novelty.size(0) == cell.kv_len() &&
                  cell.novelty.is_contiguous() && cell.novelty.is_cpu());
  }

  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& at_hand,
                      std::int64_t budget, Reasons* reasons) const override {
    const std::span<const std::int32_t> pool = at_hand.staying;
    const auto num_novel =
        static_cast<std::int64_t>(rounded_down(novelty_ratio_ * static_cast<double>(budget)));
    std::vector<float> novelty;
    novelty.reserve(pool.size());
    for (const std::int32_t position : pool)
      novelty.push_back(cell.novelty.const_data_ptr<float>()[position]);
    const Kept novel = keep_best(novelty, num_novel);
    if (num_novel == budget) {
      if (reasons != nullptr) reasons->scores = std::move(novelty);
      return {{members_at(pool, novel.indices), {}, novel.ties_at_cut}};
    }
    at::Tensor chosen = at::zeros({static_cast<std::int64_t>(pool.size())}, at::kByte);
    for (const std::int32_t index : novel.indices)
      chosen.mutable_data_ptr<std::uint8_t>()[index] = 1;
    // Novelty is a score, not a rule of place: nothing counts as forced.
    const at::Tensor votes = probe_votes(cell, kv_head, pool);
    if (reasons != nullptr) {
      reasons->scores = on_host<float>(votes);
      reasons->first = on_host<std::uint8_t>(chosen);
    }
    return {{}, keep_best_rows(votes, budget, attention::uploaded(chosen, votes.device()))};
  }

 private:
  double novelty_ratio_;
};

}  // namespace

std::unique_ptr<Selector> make_infinipot(const Setup& setup) {
  return std::make_unique<Infinipot>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_infinipot(Method& method) {
  method.title = "InfiniPot";
  method.paper_spec = "infinipot:budget_tokens=1024,novelty_ratio=0.5";
  method.deviation =
      "distils after every chunk and not when a larger pot is full; the probe text is ours, for "
      "the paper's wording was not found, and its own keys are left out of the softmax; scores are "
      "the mean over the query heads of a group; novelty is computed once and carried over, with "
      "infinity for the first token; kept keys stay at their original positions (no CR-RoPE)";
  method.summary =
      "Keeps surprising tokens and the keys that a probe text, read after each chunk, attends to.";
  method.paper = "Kim et al. 2024, arXiv 2410.01518";
  method.evidence =
      "a detailed summary of the paper's two scores; no official code was found, so details are "
      "choices";
  method.needs = {"q", "k", "probe", "novelty"};
  method.state_action = trace::StateAction::Eviction;
  method.active_in_decode = false;
  method.needs_probe = true;
  method.params = {
      float_param("novelty_ratio", 0.5, 0, 1, "share of the budget that goes to novel tokens"),
  };
  method.metadata = [](const MethodSpec&, const ModelShape&) {
    return Metadata{.words_per_kept = 1};
  };
}

}  // namespace kvloupe::selection

#endif
