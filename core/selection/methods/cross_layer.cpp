#include "core/selection/methods/cross_layer.h"

namespace kvloupe::selection {

std::optional<int> selection_layer(const MethodSpec& spec, int layer) {
  const auto first = static_cast<int>(spec.integer("first_layer"));
  const auto correction = static_cast<int>(spec.integer("correction_layer"));
  if (layer < first) return std::nullopt;
  return correction > first && layer >= correction ? correction : first;
}

std::optional<int> reused_layer(const MethodSpec& spec, int layer) {
  const std::optional<int> source = selection_layer(spec, layer);
  return source == layer ? std::nullopt : source;
}

void make_cross_layer_method(Method& method) {
  method.crosses_layers = true;
  method.params = {int_param("first_layer", 2, 0, 1 << 20,
                             "first selection layer; the model's layers below it are dense"),
                   formula_param("correction_layer", "floor(0.4*num_layers)", 0, 1 << 20,
                                 "layer that selects anew; ignored unless above first_layer"),
                   enum_param("sel_layers", {"dense", "set"},
                              "what selection layers attend to: all keys, or the set just chosen")};
  method.source_layer = reused_layer;
  method.metadata = [](const MethodSpec&, const ModelShape&) {
    return Metadata{.words_per_kept = 1};  // the set that later layers reuse
  };
}

}  // namespace kvloupe::selection
