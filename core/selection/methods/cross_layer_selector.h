// Base of the methods that choose in a few layers only and reuse that choice in the layers above
// (TidalDecode, LessIsMore): see cross_layer.h.
#pragma once

#include "core/selection/visibility_selector.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::selection {

class CrossLayerSelector : public VisibilitySelector {
 public:
  using VisibilitySelector::VisibilitySelector;
  void forget_before(int chunk) final;

 protected:
  // The rows of a selection layer.
  virtual std::vector<SelectedRow> choose_anew(const Cell& cell, std::int64_t num_candidates,
                                               std::int64_t budget) const = 0;
  // What choose_anew() decides by; layers that reuse a set have none.
  virtual std::vector<RowEvidence> evidence_anew(const Cell& cell, std::int64_t num_candidates,
                                                 std::int64_t budget) const = 0;

 private:
  bool dense_by_rule(const Cell& cell) const final;
  // A dense selection layer chooses for the layers above it: all keys where they are too few.
  void note_dense(const Cell& cell, std::int64_t num_candidates, std::int64_t budget) final;
  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                  std::int64_t budget) final;
  std::vector<RowEvidence> evidence_of(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) final;

  void note(const Cell& cell, std::vector<SelectedRow> rows);

  // By selection layer and chunk, in positions of the text. All are kept until forget_before(): a replay may
  // go through all chunks of a layer before the next layer asks.
  std::map<std::pair<int, int>, std::vector<SelectedRow>> chosen_;
};

}  // namespace kvloupe::selection
