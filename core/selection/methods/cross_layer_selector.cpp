#include "core/selection/methods/cross_layer_selector.h"

#include "core/base/error.h"
#include "core/selection/methods/cross_layer.h"

#include <fmt/format.h>

namespace kvloupe::selection {

bool CrossLayerSelector::dense_by_rule(const Cell& cell) const {
  const std::optional<int> source = selection_layer(spec(), cell.layer);
  return !source || (source == cell.layer && spec().text("sel_layers") == "dense");
}

void CrossLayerSelector::note_dense(const Cell& cell, std::int64_t num_candidates,
                                    std::int64_t budget) {
  if (selection_layer(spec(), cell.layer) == cell.layer)
    chosen_[{cell.layer, cell.chunk}] = choose_anew(cell, num_candidates, budget);
}

std::vector<SelectedRow> CrossLayerSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                                    std::int64_t budget) {
  const std::optional<int> source = reused_layer(spec(), cell.layer);
  if (!source) return chosen_[{cell.layer, cell.chunk}] = choose_anew(cell, num_candidates, budget);
  const auto found = chosen_.find({*source, cell.chunk});
  if (found == chosen_.end())
    throw input_error(
        fmt::format("{} cannot select in layer {}", spec().id(), cell.layer),
        fmt::format("it reuses the set of layer {}, which was not selected in", *source),
        "include that layer");
  return found->second;
}

}  // namespace kvloupe::selection
