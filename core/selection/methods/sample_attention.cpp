// SampleAttention (arXiv 2406.15486) as QuoKA compares with it: exact attention of a few evenly
// spaced query rows stands for that of the chunk.
//   t_i        = floor((2i+1) m / (2N)), i < N   (all rows if N >= m)
//   score[g,j] = mean over the group's heads h and i of p[h,t_i,j],  p the causal softmax over [0,T)
//   budget:    keep the best B of the past
//   coverage:  keep the smallest prefix, by falling score, that holds `coverage` of the past's
//              score, at most B (the paper's alpha)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {
namespace {

class SampleAttention final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return in_every_head(cell, rows_of_chunk(cell));
  }

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    return attention_scores(cell, cell.q, cell.k, rows_of_chunk(cell), num_candidates);
  }

  std::optional<Shares> shares(const at::Tensor& scores, std::int64_t budget) const override {
    const double coverage = spec().real("coverage");
    // All of the mass is all keys, whatever sums in fp64 make of the smallest.
    if (spec().text("mode") == "budget" || coverage >= 1) return std::nullopt;
    const at::Tensor order = ranked_rows(scores, scores.size(1));
    const at::Tensor falling = scores.gather(1, order.to(at::kLong)).to(at::kDouble);
    // Sums that would be equal but for rounding are.
    const at::Tensor goal = falling.sum({1}, true) * (coverage * (1 - 1e-9));
    const at::Tensor short_of = falling.cumsum(1).ge(goal).logical_not();
    return Shares{order, (short_of.sum(1) + 1).clamp_max(budget)};
  }

 private:
  std::vector<std::int32_t> rows_of_chunk(const Cell& cell) const {
    return evenly_spaced_rows(spec().integer("num_queries"), cell.chunk_len);
  }
};

}  // namespace

std::unique_ptr<Selector> make_sample_attention(const Setup& setup) {
  return std::make_unique<SampleAttention>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_sample_attention(Method& method) {
  method.title = "SampleAttention";
  method.paper_spec = "sample_attention:budget_tokens=1024,num_queries=16";
  method.deviation =
      "rows are sampled in each chunk, at even distances; one set per KV head from the mean over "
      "its query heads; a fixed budget instead of a share of the mass unless mode=coverage, which "
      "stays within the budget and keeps at least one key; no local band, because the chunk is "
      "visible anyway";
  method.summary = "Keeps the keys that a few evenly spaced queries attend to most.";
  method.paper =
      "Zhu et al.: SampleAttention: near-lossless acceleration of long context LLM inference with "
      "adaptive structured sparse attention, 2024, arXiv 2406.15486";
  method.evidence =
      "the paper's column sums of sampled rows, as QuoKA (arXiv 2602.08722, section 4) adapts "
      "them; "
      "no official code was found";
  method.needs = {"q", "k"};
  method.accepts_scope_all = true;
  ParamInfo coverage =
      float_param("coverage", 0.95, 0, 1, "mode=coverage: share of the past's score to be held");
  coverage.min_exclusive = true;
  method.params = {int_param("num_queries", 16, 1, 1 << 20, "evenly spaced query rows"),
                   enum_param("mode", {"budget", "coverage"},
                              "how many keys are kept: the budget, or as few as hold the coverage"),
                   coverage};
  method.traits = [](const MethodSpec&, Traits& traits) { traits.samples_rows = true; };
  set_row_count_param(method, "num_queries");
}

}  // namespace kvloupe::selection

#endif
