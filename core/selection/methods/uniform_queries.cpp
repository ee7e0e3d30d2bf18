// Uniform queries: QuoKA without its choice of queries. Evenly spaced rows of the chunk stand for
// it,
//   t_i = floor((2i+1) m / (2N)), i < N   (all rows if N >= m)
// and the rest is QuoKA's: cosine, mean over the group's heads, max over the rows.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/slot_selector.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::selection {
namespace {

class UniformQueries final : public SlotSelector {
 public:
  UniformQueries(const MethodSpec& spec, Ablation ablation)
      : SlotSelector(spec),
        metric_(ablation == Ablation::ExactLogits ? KeyMetric::Dot : KeyMetric::Cosine) {}

 protected:
  SlotScoring slots_of(const Cell& cell) override {
    const auto rows = evenly_spaced_rows(spec().integer("num_queries"), cell.chunk_len);
    return {on_device(in_every_head(cell, rows), cell.q.device()), {.metric = metric_}};
  }

 private:
  KeyMetric metric_;
};

}  // namespace

std::unique_ptr<Selector> make_uniform_queries(const Setup& setup) {
  return std::make_unique<UniformQueries>(setup.spec, setup.ablation);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_uniform_queries(Method& method) {
  method.title = "Uniform queries";
  method.paper_spec = "uniform_queries:budget_tokens=1024,num_queries=16";
  method.summary = "QuoKA with query rows taken evenly instead of by their relevance.";
  method.paper = "reference; an ablation of QuoKA, arXiv 2602.08722";
  method.evidence = "QuoKA's scoring with evenly spaced query rows";
  method.needs = {"q", "k"};
  method.accepts_scope_all = true;
  method.params = {int_param("num_queries", 16, 1, 1 << 20, "evenly spaced query rows")};
  method.traits = [](const MethodSpec&, Traits& traits) {
    traits.samples_rows = true;
    traits.has_slots = true;
    traits.approximates = true;
  };
  set_row_count_param(method, "num_queries");
}

}  // namespace kvloupe::selection

#endif
