// Dense attention: keeps all of the past. The reference every error is measured against.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/visibility_selector.h"

namespace kvloupe::selection {
namespace {

class Dense final : public VisibilitySelector {
 public:
  using VisibilitySelector::VisibilitySelector;

 protected:
  bool dense_by_rule(const Cell&) const override { return true; }
  std::vector<SelectedRow> choose(const Cell&, std::int64_t, std::int64_t) override { return {}; }
};

}  // namespace

std::unique_ptr<Selector> make_dense(const Setup& setup) {
  return std::make_unique<Dense>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_dense(Method& method) {
  method.title = "Dense";
  method.paper_spec = "dense";
  method.summary = "Keeps every key: what the sparse methods are measured against.";
  method.paper = "Vaswani et al. 2017, arXiv 1706.03762";
  method.evidence = "definition";
  method.granularity = trace::Granularity::None;
  method.budget = BudgetUse::None;
  method.active_in_decode = false;
}

}  // namespace kvloupe::selection

#endif
