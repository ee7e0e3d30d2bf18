#include "core/selection/methods/cross_layer_selector.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace kvloupe::selection {
namespace {

// The last selection layer that is not above `layer`; nullopt below them all.
std::optional<int> selection_layer(const MethodSpec& spec, int layer) {
  const auto first = static_cast<int>(spec.integer("first_layer"));
  const auto correction = static_cast<int>(spec.integer("correction_layer"));
  if (layer < first) return std::nullopt;
  return correction > first && layer >= correction ? correction : first;
}

}  // namespace

std::optional<int> CrossLayerSelector::source_of(const MethodSpec& spec, int layer) {
  const std::optional<int> source = selection_layer(spec, layer);
  return source == layer ? std::nullopt : source;
}

std::vector<ParamInfo> CrossLayerSelector::params() {
  return {int_param("first_layer", 2, 0, 1 << 20,
                    "first selection layer; the model's layers below it are dense"),
          formula_param("correction_layer", "floor(0.4*num_layers)", 0, 1 << 20,
                        "layer that selects anew; ignored unless above first_layer"),
          enum_param("sel_layers", {"dense", "set"},
                     "what selection layers attend to: all keys, or the set just chosen")};
}

bool CrossLayerSelector::dense_by_rule(const Cell& cell) const {
  const std::optional<int> source = selection_layer(spec(), cell.layer);
  return !source || (source == cell.layer && spec().text("sel_layers") == "dense");
}

void CrossLayerSelector::note_dense(const Cell& cell, std::int64_t num_candidates,
                                    std::int64_t budget) {
  if (selection_layer(spec(), cell.layer) == cell.layer)
    chosen_[{cell.layer, cell.chunk}] = choose_anew(cell, num_candidates, budget);
}

std::vector<RowSelection> CrossLayerSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                                     std::int64_t budget) {
  const std::optional<int> source = source_of(spec(), cell.layer);
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
