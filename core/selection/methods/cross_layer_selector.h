// Base of the methods that choose in a few layers only and reuse that choice in the layers above
// (TidalDecode, LessIsMore): selection layers first_layer and correction_layer; layers below
// first_layer are dense; a correction layer that is not above first_layer is ignored.
#pragma once

#include "core/selection/method.h"
#include "core/selection/visibility_selector.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::selection {

class CrossLayerSelector : public VisibilitySelector {
 public:
  using VisibilitySelector::VisibilitySelector;

  // Method::source_layer: the selection layer whose set a layer reuses.
  static std::optional<int> source_of(const MethodSpec& spec, int layer);
  // first_layer, correction_layer, sel_layers.
  static std::vector<ParamInfo> params();

 protected:
  // The rows of a selection layer.
  virtual std::vector<RowSelection> choose_anew(const Cell& cell, std::int64_t num_candidates,
                                                std::int64_t budget) const = 0;

 private:
  bool dense_by_rule(const Cell& cell) const final;
  // A dense selection layer chooses for the layers above it.
  void note_dense(const Cell& cell, std::int64_t num_candidates, std::int64_t budget) final;
  std::vector<RowSelection> choose(const Cell& cell, std::int64_t num_candidates,
                                   std::int64_t budget) final;

  // By selection layer and chunk. All are kept: a replay may go through all chunks of a layer
  // before the next layer asks.
  std::map<std::pair<int, int>, std::vector<RowSelection>> chosen_;
};

}  // namespace kvloupe::selection
