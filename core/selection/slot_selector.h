// Base of the methods that score keys against a few rows of the chunk, QuoKA and its ablation: slot r is
// one row of each query head of a group, and the best keys of all slots together are kept.
#pragma once

#include "core/selection/visibility_selector.h"

#include <optional>
#include <vector>

namespace kvloupe::selection {

class SlotSelector : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;
  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) final;
  std::optional<SlotScoring> slots(const Cell& cell) final { return slots_of(cell); }

 protected:
  virtual SlotScoring slots_of(const Cell& cell) = 0;
  at::Tensor scores(const Cell& cell, std::int64_t num_candidates) final;
};

}  // namespace kvloupe::selection
