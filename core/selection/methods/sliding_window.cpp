// Sliding window: keeps the newest keys. Positions alone decide.
//   past: [max(0, P-B), P)     all: [T-B, T)
// A window of B keys per query would move with each row of the chunk; the shared set is the one of
// the chunk's first row.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/cell_rows.h"
#include "core/selection/visibility_selector.h"

namespace kvloupe::selection {
namespace {

class SlidingWindow final : public VisibilitySelector {
 public:
  using VisibilitySelector::VisibilitySelector;

 protected:
  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                  std::int64_t budget) override {
    const std::vector<std::int32_t> newest = range(num_candidates - budget, num_candidates);
    const SelectedRow row{newest, newest};
    return std::vector<SelectedRow>(static_cast<std::size_t>(cell.num_kv_heads()), row);
  }
};

}  // namespace

std::unique_ptr<Selector> make_sliding_window(const Setup& setup) {
  return std::make_unique<SlidingWindow>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_sliding_window(Method& method) {
  method.title = "Sliding window";
  method.paper_spec = "sliding_window:budget_tokens=1024";
  method.deviation = "one window per chunk, not per query; decoded tokens see all keys";
  method.summary = "Keeps the most recent keys, whatever they are.";
  method.paper = "reference; Beltagy et al. 2020, arXiv 2004.05150";
  method.evidence = "definition";
  method.accepts_scope_all = true;
  method.active_in_decode = false;
}

}  // namespace kvloupe::selection

#endif
