// TidalDecode (arXiv 2410.05076) on a chunk: in the selection layers the best keys are found from
// full logits, in the layers above they are reused.
//   zbar[h,j]  = mean over the chunk's rows t of z[h,t,j],  z the scaled logits
//   score[g,j] = mean over the group's heads h of zbar[h,j]
//   keep the best B of [0, P), one set per KV head, until the next selection layer
// The past is not masked, so the mean logit is the logit of the mean query.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/logit_scoring.h"
#include "core/selection/methods/cross_layer_selector.h"
#include "core/selection/remembers.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::selection {
namespace {

class TidalDecode final : public CrossLayerSelector, public Remembers {
 public:
  using CrossLayerSelector::CrossLayerSelector;
  std::unique_ptr<Selector> copy() const override { return std::make_unique<TidalDecode>(*this); }

 protected:
  std::vector<SelectedRow> choose_anew(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) const override {
    return rows_of(keep_best_rows(scores(cell, num_candidates), budget));
  }

  std::vector<RowEvidence> evidence_anew(const Cell& cell, std::int64_t num_candidates,
                                         std::int64_t budget) const override {
    const std::vector<float> all = on_host<float>(scores(cell, num_candidates));
    std::vector<RowEvidence> rows;
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head)
      rows.push_back(evidence_of_keys(
          0, std::span(all).subspan(head * num_candidates, num_candidates), budget));
    return rows;
  }

 private:
  static at::Tensor scores(const Cell& cell, std::int64_t num_candidates) {
    return logit_scores(cell, cell.k, mean_queries(cell), num_candidates);
  }
};

}  // namespace

std::unique_ptr<Selector> make_tidal_decode(const Setup& setup) {
  return std::make_unique<TidalDecode>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it
#include "core/selection/methods/cross_layer.h"

namespace kvloupe::selection {

void describe_tidal_decode(Method& method) {
  method.title = "TidalDecode";
  method.paper_spec = "tidal_decode:budget_tokens=1024";
  method.deviation =
      "applied to prefill chunks, from the mean over the chunk's rows, where the paper selects for "
      "one decoded token; one set per KV head from the mean over its query heads, where the paper "
      "has one for each query head; the correction layer defaults to 0.4 of the model's layers; "
      "the chunk is visible outside the budget";
  method.summary = "Finds the best keys in two layers and reuses them in the layers above.";
  method.paper =
      "Yang et al.: TidalDecode: fast and accurate LLM decoding with position persistent sparse "
      "attention, 2024, arXiv 2410.05076";
  method.evidence = "DerrickYLJ/TidalDecode; on a chunk as in QuoKA (arXiv 2602.08722, section 4)";
  method.needs = {"q", "k"};
  make_cross_layer_method(method);
}

}  // namespace kvloupe::selection

#endif
