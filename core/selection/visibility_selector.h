// Base of the methods that choose anew for every chunk which keys its queries may see: settles the
// cells that are dense (nothing past, or all of it fits the budget) and leaves the choice to the method.
#pragma once

#include "core/selection/lanes/lanes.h"
#include "core/selection/selector.h"

#include <string>
#include <vector>

namespace kvloupe::selection {

class VisibilitySelector : public Selector {
 public:
  explicit VisibilitySelector(MethodSpec spec) : spec_(std::move(spec)) {}
  CellSelection select(const Cell& cell) final;
  CellSelection select_there(const Cell& cell) final;
  std::vector<RowEvidence> evidence(const Cell& cell) final;

  // What follows speaks of the cell without the keys that a window hides (visible_part): positions
  // count from its first key.

 protected:
  // The rows of a cell that is not dense: `budget` of the candidates [0, num_candidates) each.
  virtual std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                          std::int64_t budget) = 0;
  // The same choice: left on the device (`there`), where all rows keep as many, or the rows. The default: the rows.
  struct Chosen {
    std::vector<SelectedRow> rows;
    std::optional<KeptRows> there;
  };
  virtual Chosen choose_there(const Cell& cell, std::int64_t num_candidates, std::int64_t budget);
  // Dense although the candidates exceed the budget, beside Traits::dense_layers. The default:
  // decoding, where the method does not select then.
  virtual bool dense_by_rule(const Cell& cell) const;
  // A cell that is dense: for methods that choose there all the same, for later layers.
  virtual void note_dense(const Cell& cell, std::int64_t num_candidates, std::int64_t budget);
  virtual std::int64_t num_rows(const Cell& cell) const { return cell.num_kv_heads(); }
  // Methods that prune lanes.
  virtual std::optional<PrunedLanes> lanes(const Cell& cell);
  // What choose() decides by, for each of its rows.
  virtual std::vector<RowEvidence> evidence_of(const Cell& cell, std::int64_t num_candidates,
                                               std::int64_t budget);
  const MethodSpec& spec() const { return spec_; }

 private:
  CellSelection select_visible(const Cell& cell);
  std::int64_t num_candidates(const Cell& cell) const {
    return spec_.scope() == BudgetScope::All ? cell.kv_len() : cell.past_len;
  }

  MethodSpec spec_;
};

// One score per candidate and KV head; the best are kept.
class ScoringSelector : public VisibilitySelector {
 public:
  explicit ScoringSelector(MethodSpec spec);

 protected:
  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                  std::int64_t budget) final;
  Chosen choose_there(const Cell& cell, std::int64_t num_candidates, std::int64_t budget) final;
  std::vector<RowEvidence> evidence_of(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) final;
  // Scores of the candidates [0, num_candidates), [num_kv_heads, num_candidates] on the cell's device,
  // whatever the budget is. Higher is kept.
  virtual at::Tensor scores(const Cell& cell, std::int64_t num_candidates) = 0;
  // Of rows that keep different numbers of keys, each at least one and at most `budget`.
  struct Shares {
    at::Tensor order;   // int32 [rows, candidates], best first
    at::Tensor counts;  // int64 [rows] how many of them are kept
  };
  // Nothing: each row keeps the budget, the default.
  virtual std::optional<Shares> shares(const at::Tensor& scores, std::int64_t budget) const;

 private:
  at::Tensor all_scores(const Cell& cell, std::int64_t num_candidates);

  std::string whatever_budget_;  // the method, with one and the same budget
};

}  // namespace kvloupe::selection
