// Mass oracle: keeps the keys that the chunk's attention truly weighs most. Needs the attention
// that a sparse method wants to avoid, so it is an upper bound, not a method to deploy.
//   p[h,t,j]  the dense causal softmax of the chunk's rows
//   sum:  score[g,j] = sum over the group's heads h and the rows t of p[h,t,j]   (best mass recall)
//   max:  score[g,j] = max over h, t of p[h,t,j]                                 (worst query)
// The sum is the exact maximiser of captured mass at its size; neither minimises the output error.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/attention/attention.h"
#include "core/selection/cell_rows.h"
#include "core/selection/visibility_selector.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {
namespace {

class Oracle final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) override {
    return (spec().text("reduce") == "sum" ? mass(cell) : largest(cell))
        .narrow(1, 0, num_candidates);
  }

 private:
  // Both [num_kv_heads, T].
  static at::Tensor mass(const Cell& cell) {
    // Tensor cores sum in another order: what is the truth for others must not depend on the type.
    return attention::chunk_mass(cell.q.to(at::kFloat), cell.k.to(at::kFloat), cell.softmax)
        .key_mass;
  }

  static at::Tensor largest(const Cell& cell) {
    return reduce_probabilities(sets_over_cell(cell, cell.q, all_rows(cell)), cell.k,
                                ColumnReduce::Max)
        .view({cell.num_kv_heads(), cell.gqa_group_size(), cell.kv_len()})
        .amax(1);
  }
};

}  // namespace

std::unique_ptr<Selector> make_oracle(const Setup& setup) {
  return std::make_unique<Oracle>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_oracle(Method& method) {
  method.title = "Mass oracle";
  method.paper_spec = "oracle:budget_tokens=1024";
  method.summary = "Keeps the keys that the chunk's dense attention weighs most.";
  method.paper = "reference, no paper";
  method.evidence = "exact top keys by dense attention mass";
  method.needs = {"q", "k"};
  method.accepts_scope_all = true;
  method.params = {
      enum_param("reduce", {"sum", "max"}, "over the chunk's rows and the group's heads")};
}

}  // namespace kvloupe::selection

#endif
