// SparQ (arXiv 2312.04985) on a chunk: logits over the few channels where the queries are largest
// stand for the true ones.
//   C[g]        = the r channels c of largest sum over the group's heads h and rows t of |Q[h,t,c]|
//   tau[h,t]    = sqrt(d * sum_{c in C} |Q[h,t,c]| / sum_c |Q[h,t,c]|)
//   zhat[h,t,j] = sum_{c in C} Q[h,t,c] K[g,j,c] / tau[h,t]
//   logit_mean: score[g,j] = mean over h, t of zhat[h,t,j]
//   prob_mean:  score[g,j] = mean over h, t of the causal softmax over [0,T) of zhat[h,t,:]
// 1/tau is the model's softmax scale, 1/sqrt(d), over the root of the share of |Q| in C; a model
// with another scale keeps its own. A query that has nothing in C has no logits: zhat = 0.
// K[g,j,c] is read from a copy of the keys by channel, made as they come in: the channels in C alone.
#include "core/selection/methods/narrow_logits.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

#include <cmath>

namespace kvloupe::selection {
namespace {

class Sparq final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    const std::int64_t heads = cell.num_kv_heads(), dim = cell.q.size(2),
                       rows = cell.gqa_group_size() * cell.chunk_len;
    const at::Tensor q = cell.q.reshape({heads, rows, dim}).to(at::kFloat);
    const at::Tensor sizes = q.abs();
    const at::Tensor channels = largest_channels(sizes);
    const at::Tensor indices = channels.to(at::kLong);
    const at::Tensor in_set = at::zeros({heads, dim}, q.options()).scatter_(1, indices, 1);
    // 1 / (softmax_scale * tau): 1 over the root of the share of |q| that the channels hold.
    const at::Tensor sums = at::bmm(sizes, at::stack({at::ones_like(in_set), in_set}, 2));
    const at::Tensor all = sums.select(2, 0), chosen = sums.select(2, 1);
    const at::Tensor stretch = (all / chosen).sqrt().masked_fill(chosen == 0, 0);  // [G, rows]
    const attention::LaneKeys by_channel = copied_keys(cell, {nullptr, dim, true});
    const std::int64_t skipped = cell.first_key - by_channel.first_position;
    if (spec().text("agg") == "logit_mean") {
      const at::Tensor mean = at::bmm(stretch.unsqueeze(1), q).squeeze(1) *
                              (cell.softmax.scale / static_cast<double>(rows));
      return channel_products(mean * in_set, channels, by_channel.numbers, skipped, num_candidates);
    }
    const at::Tensor narrow =
        q.gather(2, indices.unsqueeze(1).expand({-1, rows, -1})) * stretch.unsqueeze(2);
    const at::Tensor keys = load_lanes(by_channel.numbers, channels, skipped, cell.kv_len());
    return attention_scores(cell, narrow.view({cell.num_q_heads(), cell.chunk_len, -1}), keys,
                            all_rows(cell), num_candidates);
  }

 private:
  // C: int32 [num_kv_heads, r], ascending.
  at::Tensor largest_channels(const at::Tensor& sizes) const {
    return keep_best_rows(sizes.mean(1), spec().integer("num_channels")).indices;
  }
};

}  // namespace

std::unique_ptr<Selector> make_sparq(const Setup& setup) {
  check_num_channels(setup, "channels");
  return std::make_unique<Sparq>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_sparq(Method& method) {
  method.title = "SparQ";
  method.paper_spec = "sparq:budget_tokens=1024";
  method.deviation =
      "one set of channels per KV head for the whole chunk, where the paper has one for each "
      "query; "
      "no local keys are forced, because the chunk is visible anyway; what the dropped keys would "
      "have added is not replaced by the mean value; a softmax scale other than 1/sqrt(head_dim) "
      "is kept; QuoKA does not say how many channels it compared, the default is a quarter";
  method.summary = "Keeps the keys that match the chunk's queries on their largest channels.";
  method.paper =
      "Ribar et al.: SparQ attention: bandwidth-efficient LLM inference, 2023, arXiv 2312.04985";
  method.evidence =
      "graphcore-research/llm-inference-research, llminference/methods/ann_attention.py; its mean "
      "over a chunk's queries as in QuoKA (arXiv 2602.08722, section 4)";
  method.needs = {"q", "k"};
  method.accepts_scope_all = true;
  method.params = narrow_logit_params("channels of the head");
  method.traits = [](const MethodSpec&, Traits& traits) { traits.approximates = true; };
  set_channel_count_param(method);
  // Channels differ from chunk to chunk: a copy of K by channel has all of them.
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes_per_key = shape.head_dim};
  };
}

}  // namespace kvloupe::selection

#endif
