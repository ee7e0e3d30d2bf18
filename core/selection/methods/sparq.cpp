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
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/key_copies.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/ranking.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::selection {
namespace {

class Sparq final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  std::vector<float> scores(const Cell& cell, std::int64_t num_candidates) override {
    const std::int64_t dim = cell.q.size(2), group = cell.gqa_group_size();
    const std::int64_t num_channels = spec().integer("num_channels");
    const bool logits = spec().text("agg") == "logit_mean";
    ChannelRows means;
    means.channels.resize(static_cast<std::size_t>(cell.num_kv_heads()));
    means.values.assign(static_cast<std::size_t>(cell.num_kv_heads() * dim), 0.0);
    at::Tensor queries;  // what each query has in the channels
    if (!logits)
      queries = at::empty({cell.num_q_heads(), cell.chunk_len, num_channels}, at::kFloat);
    float* out = logits ? nullptr : queries.mutable_data_ptr<float>();
    for_each_item(cell.num_kv_heads(), 4 * group * cell.chunk_len * dim, [&](std::int64_t kv_head) {
      const std::vector<std::int32_t> by_size = largest_channels(cell, kv_head);
      std::vector<std::int32_t>& channels = means.channels[kv_head];
      channels = by_size;
      std::sort(channels.begin(), channels.end());
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
          const float* q = query_row(cell, head, row);
          const double factor = stretch(q, dim, by_size);
          float* narrow = logits ? nullptr : out + (head * cell.chunk_len + row) * num_channels;
          for (const std::int32_t channel : channels) {
            const double value = factor * static_cast<double>(q[channel]);
            if (logits)
              means.values[kv_head * dim + channel] +=
                  value / static_cast<double>(group * cell.chunk_len);
            else
              *narrow++ = static_cast<float>(value);
          }
        }
    });
    const attention::LaneKeys by_channel = copied_keys(cell, {nullptr, dim, true});
    if (logits) return channel_scores(cell, by_channel, means, num_candidates);
    return attention_scores(cell, queries, rows_of_lanes(cell, by_channel, means.channels),
                            all_rows(cell), num_candidates);
  }

 private:
  std::vector<std::int32_t> largest_channels(const Cell& cell, std::int64_t kv_head) const {
    const std::int64_t group = cell.gqa_group_size();
    std::vector<double> sums(static_cast<std::size_t>(cell.q.size(2)), 0.0);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
        const float* q = query_row(cell, head, row);
        for (std::size_t channel = 0; channel < sums.size(); ++channel)
          sums[channel] += std::abs(static_cast<double>(q[channel]));
      }
    std::vector<float> sizes;
    for (const double sum : sums)
      sizes.push_back(static_cast<float>(sum / static_cast<double>(group * cell.chunk_len)));
    return ranked(sizes, spec().integer("num_channels"));
  }

  // 1 / (softmax_scale * tau): 1 over the root of the share of |q| that the channels hold.
  static double stretch(const float* q, std::int64_t dim,
                        const std::vector<std::int32_t>& channels) {
    double all = 0, chosen = 0;
    for (std::int64_t i = 0; i < dim; ++i) all += std::abs(static_cast<double>(q[i]));
    for (const std::int32_t channel : channels) chosen += std::abs(static_cast<double>(q[channel]));
    return chosen > 0 ? std::sqrt(all / chosen) : 0.0;
  }
};

}  // namespace

std::unique_ptr<Selector> make_sparq(const Setup& setup) {
  if (setup.spec.integer("num_channels") > setup.shape.head_dim)
    throw input_error(
        fmt::format("sparq cannot compare {} channels", setup.spec.integer("num_channels")),
        fmt::format("a head of this model has {}", setup.shape.head_dim),
        "give a smaller num_channels");
  return std::make_unique<Sparq>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // what is known of it

namespace kvloupe::selection {

Method sparq_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "sparq";
  info.title = "SparQ";
  info.paper =
      "Ribar et al.: SparQ attention: bandwidth-efficient LLM inference, 2023, arXiv 2312.04985";
  info.evidence =
      "graphcore-research/llm-inference-research, llminference/methods/ann_attention.py; its mean "
      "over a chunk's queries as in QuoKA (arXiv 2602.08722, section 4)";
  info.deviation =
      "one set of channels per KV head for the whole chunk, where the paper has one for each "
      "query; "
      "no local keys are forced, because the chunk is visible anyway; what the dropped keys would "
      "have added is not replaced by the mean value; a softmax scale other than 1/sqrt(head_dim) "
      "is kept; QuoKA does not say how many channels it compared, the default is a quarter";
  info.summary = "Keeps the keys that match the chunk's queries on their largest channels.";
  info.needs = {"q", "k"};
  info.accepts_scope_all = true;
  info.params = {formula_param("num_channels", "head_dim/4", 1, 1 << 20,
                               "channels of the head that are compared; at most head_dim"),
                 enum_param("agg", {"logit_mean", "prob_mean"},
                            "over the chunk's rows and the group's heads: the mean of the "
                            "approximate logits, or of their softmax")};
  // Channels differ from chunk to chunk: a copy of K by channel has all of them.
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes_per_key = shape.head_dim};
  };
  return method;
}

}  // namespace kvloupe::selection

#endif
