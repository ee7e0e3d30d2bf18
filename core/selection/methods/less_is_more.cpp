// LessIsMore (arXiv 2508.07101) on a chunk: like TidalDecode, but all heads share one set, the best
// keys of every query head in turn, with sinks and the newest keys.
//   k_mid = floor(B (1 - recent_ratio)),  recent = B - k_mid; the sinks are taken out of recent, and
//   there are none if recent < sink_tokens
//   zbar[h,j] = mean over the chunk's rows t of z[h,t,j],  z the scaled logits
//   each query head ranks the candidates [sinks, P - recent) by zbar
//   union, rank by rank: every head's first in head order, then every head's second, ..., each key
//   once, until k_mid are found
//   set = sinks, union, the newest `recent`, for all KV heads, until the next selection layer
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/methods/cross_layer_selector.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::selection {
namespace {

class LessIsMore final : public CrossLayerSelector {
 public:
  using CrossLayerSelector::CrossLayerSelector;

 protected:
  std::vector<SelectedRow> choose_anew(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) const override {
    const auto middle = static_cast<std::int64_t>(
        rounded_down(static_cast<double>(budget) * (1 - spec().real("recent_ratio"))));
    std::int64_t recent = budget - middle;
    std::int64_t sinks = spec().integer("sink_tokens");
    if (recent < sinks) sinks = 0;
    sinks =
        std::max<std::int64_t>(0, sinks - cell.first_key);  // a window hides the text's first keys
    recent -= sinks;
    const std::int64_t newest = num_candidates - recent;

    const std::vector<std::int32_t> first = range(0, sinks);
    const std::vector<std::int32_t> shared = union_of_heads(cell, sinks, newest, middle);
    const std::vector<std::int32_t> last = range(newest, num_candidates);
    SelectedRow row{first, first};
    row.positions.insert(row.positions.end(), shared.begin(), shared.end());
    row.positions.insert(row.positions.end(), last.begin(), last.end());
    row.forced.insert(row.forced.end(), last.begin(), last.end());
    return std::vector(static_cast<std::size_t>(cell.num_kv_heads()), row);
  }

 private:
  // `count` positions of [begin, end), which holds at least as many, ascending.
  static std::vector<std::int32_t> union_of_heads(const Cell& cell, std::int64_t begin,
                                                  std::int64_t end, std::int64_t count) {
    const std::int64_t heads = cell.num_q_heads();
    const at::Tensor scores = logit_scores(cell, cell.k, mean_query_rows(cell), end);
    const std::vector<std::vector<std::int32_t>> orders =
        rows_on_host(ranked_rows(scores.narrow(1, begin, end - begin), count));
    std::vector<std::int32_t> shared;
    std::vector<bool> taken(static_cast<std::size_t>(end), false);
    for (std::int64_t item = 0; static_cast<std::int64_t>(shared.size()) < count; ++item) {
      const auto position = static_cast<std::int32_t>(begin) + orders[item % heads][item / heads];
      if (!taken[position]) shared.push_back(position);
      taken[position] = true;
    }
    std::sort(shared.begin(), shared.end());
    return shared;
  }
};

}  // namespace

std::unique_ptr<Selector> make_less_is_more(const Setup& setup) {
  return std::make_unique<LessIsMore>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // what is known of it
#include "core/selection/methods/cross_layer.h"

namespace kvloupe::selection {

Method less_is_more_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "less_is_more";
  info.title = "LessIsMore";
  info.paper =
      "Yang et al.: Less is more: training-free sparse attention with global locality for "
      "efficient "
      "reasoning, 2025, arXiv 2508.07101";
  info.evidence =
      "DerrickYLJ/LessIsMore, the Hugging Face path for Qwen; on a chunk as in QuoKA "
      "(arXiv 2602.08722, section 4)";
  info.deviation =
      "applied to prefill chunks, from the mean over the chunk's rows, where the paper selects for "
      "one decoded token; recent_ratio is the paper's share of recent keys (1 - lim_ratio in the "
      "repository's Qwen file); the correction layer defaults to 0.4 of the model's layers; the "
      "chunk is visible outside the budget";
  info.summary =
      "Finds keys that all heads vote for in two layers and reuses them in the layers above.";
  info.needs = {"q", "k"};
  info.crosses_layers = true;
  info.params = cross_layer_params();
  info.params.push_back(int_param("sink_tokens", 4, 0, 1 << 20,
                                  "first keys that stay; none if the recent keys are fewer"));
  info.params.push_back(
      float_param("recent_ratio", 0.25, 0, 1, "share of the budget for sinks and newest keys"));
  method.source_layer = reused_layer;
  method.metadata = [](const MethodSpec&, const ModelShape&) {
    return Metadata{.words_per_kept = 1};  // the set that later layers reuse
  };
  return method;
}

}  // namespace kvloupe::selection

#endif
