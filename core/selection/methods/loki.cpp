// Loki (arXiv 2406.02542) on a chunk: keys live close to a subspace, so logits over the first r
// principal directions P_r of the keys of a KV head stand for the true ones.
//   zhat[h,t,j] = s <P_r^T Q[h,t], P_r^T K[g,j]>,  s the model's softmax scale, not 1/sqrt(r)
//   logit_mean: score[g,j] = mean over h, t of zhat[h,t,j]
//   prob_mean:  score[g,j] = mean over h, t of the causal softmax over [0,T) of zhat[h,t,:]
// P_r^T K is a copy of the keys of r numbers each, made as they come in. The mean that the keys were
// centred on to find P is not taken from them here: it would add the same to all logits of a query.
#include "core/selection/methods/narrow_logits.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

#include <utility>

namespace kvloupe::selection {
namespace {

class Loki final : public ScoringSelector {
 public:
  Loki(MethodSpec spec, BasisPtr basis)
      : ScoringSelector(std::move(spec)), basis_(std::move(basis)) {}

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    const std::int64_t heads = cell.num_kv_heads(), kept = spec().integer("num_channels"),
                       dim = cell.q.size(2);
    const attention::LaneKeys copy = copied_keys(cell, {basis_, kept, /*by_lane=*/false});
    const at::Tensor keys = rows_of_copy(cell, copy);
    // P_r of each KV head.
    const at::Tensor directions = directions_of(cell, *basis_).narrow(2, 0, kept);
    if (spec().text("agg") == "logit_mean") {
      // The mean of projections is the projection of the mean.
      const at::Tensor mean = mean_queries(cell).unsqueeze(1);
      return logit_scores(cell, keys, at::bmm(mean, directions).squeeze(1), num_candidates);
    }
    const at::Tensor queries = at::bmm(cell.q.reshape({heads, -1, dim}).to(at::kFloat), directions)
                                   .view({cell.num_q_heads(), cell.chunk_len, kept});
    return attention_scores(cell, queries, keys, all_rows(cell), num_candidates);
  }

 private:
  BasisPtr basis_;
};

}  // namespace

std::unique_ptr<Selector> make_loki(const Setup& setup) {
  check_num_channels(setup, "directions");
  return std::make_unique<Loki>(setup.spec, setup.basis);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_loki(Method& method) {
  method.title = "Loki";
  method.paper_spec = "loki:budget_tokens=1024";
  method.deviation =
      "one set per KV head from the mean over its query heads and the chunk's rows, where the "
      "paper "
      "has one for each query; the same number of directions in every layer; the budget is a "
      "number "
      "of keys instead of a share of the text; QuoKA does not say how many directions it compared, "
      "the default is a quarter";
  method.summary = "Keeps the keys that match the chunk's queries along the keys' main directions.";
  method.paper =
      "Singhania et al.: Loki: low-rank keys for efficient sparse attention, 2024, "
      "arXiv 2406.02542";
  method.evidence =
      "hpcgroup/loki, methods/pca_topk and pca_analysis/pca.py; its mean over a chunk's queries as "
      "in QuoKA (arXiv 2602.08722, section 4)";
  method.needs = {"q", "k", "basis"};
  method.accepts_scope_all = true;
  method.basis = trace::BasisKind::Loki;
  method.params = narrow_logit_params("principal directions");
  method.params.push_back(basis_param());
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.basis->where = spec.text("basis");
    traits.approximates = true;
  };
  set_channel_count_param(method);
  // A copy of the keys along the leading directions, and these.
  method.metadata = [](const MethodSpec& spec, const ModelShape& shape) {
    const std::int64_t channels = spec.integer("num_channels");
    return Metadata{.lanes_per_key = channels, .lanes = channels * shape.head_dim};
  };
}

}  // namespace kvloupe::selection

#endif
