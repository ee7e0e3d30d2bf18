#include "core/selection/blocks/gate_file.h"

#include "core/base/safetensors.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace kvloupe::selection {
namespace {

constexpr std::string_view kPrefix = "model.layers.";
constexpr std::string_view kQuerySuffix = ".self_attn.attn_gate.mask_linear_q.weight";
constexpr std::string_view kKeySuffix = ".self_attn.attn_gate.mask_linear_k.weight";

std::string name_of(int layer, std::string_view suffix) {
  return fmt::format("{}{}{}", kPrefix, layer, suffix);
}

// The layer of a weight with this suffix.
std::optional<int> layer_of(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix) ||
      name.size() < kPrefix.size() + suffix.size())
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(suffix.size());
  const auto layer = parse_int(name);
  if (!layer || *layer < 0 || *layer > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*layer);
}

std::vector<float> read_weight(const SafetensorsFile& file, const std::string& name,
                               const std::vector<std::int64_t>& shape) {
  const auto& found = file.entries().at(name).shape;
  if (found != shape)
    file.refuse(fmt::format("{} has shape [{}] where this model needs [{}]", name,
                            fmt::join(found, ", "), fmt::join(shape, ", ")));
  std::vector<float> values = file.read(name);
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    file.refuse(name + " holds a NaN or an infinity");
  return values;
}

GateLayer read_layer(const SafetensorsFile& file, int layer, const ModelShape& shape,
                     std::int64_t hidden) {
  GateLayer gate;
  const std::string key_name = name_of(layer, kKeySuffix);
  const std::string query_name = name_of(layer, kQuerySuffix);
  const bool queries = file.entries().count(query_name) > 0;
  if (!queries && hidden != shape.head_dim)
    file.refuse(
        fmt::format("it lacks {}, without which {} channels of the keys meet {} of the "
                    "queries",
                    query_name, hidden, shape.head_dim));
  const auto& key_shape = file.entries().at(key_name).shape;
  const bool per_query_head = !key_shape.empty() && key_shape[0] == shape.num_q_heads;
  gate.num_k_heads = per_query_head ? shape.num_q_heads : shape.num_kv_heads;
  gate.k_weight = read_weight(file, key_name, {gate.num_k_heads, 3 * shape.head_dim, hidden});
  if (queries)
    gate.q_weight = read_weight(file, query_name, {shape.num_q_heads, shape.head_dim, hidden});
  return gate;
}

}  // namespace

Gate read_gate(const std::filesystem::path& path, const ModelShape& shape) {
  const SafetensorsFile file(path,
                             "name a gate made for this model, by kvloupe calibrate seer or "
                             "published, as safetensors");
  Gate gate;
  gate.metadata = file.metadata();
  for (const auto& [name, entry] : file.entries()) {
    const auto layer = layer_of(name, kKeySuffix);
    if (!layer) continue;
    if (*layer >= shape.num_layers)
      file.refuse(
          fmt::format("it has layer {}, and this model has {} layers", *layer, shape.num_layers));
    if (entry.shape.size() != 3) file.refuse(name + " does not have three dimensions");
    if (gate.layers.empty()) gate.hidden = entry.shape[2];
    if (gate.hidden < 2 || gate.hidden % 2 != 0)
      file.refuse(name + " has no even number of hidden channels");
    gate.layers[*layer] = read_layer(file, *layer, shape, gate.hidden);
  }
  if (gate.layers.empty()) file.refuse(fmt::format("it holds no {}<layer>{}", kPrefix, kKeySuffix));
  return gate;
}

void write_gate(const std::filesystem::path& path, const Gate& gate, const ModelShape& shape) {
  std::map<std::string, NamedTensor> tensors;
  for (const auto& [layer, weights] : gate.layers) {
    tensors[name_of(layer, kKeySuffix)] = {{weights.num_k_heads, 3 * shape.head_dim, gate.hidden},
                                           weights.k_weight};
    if (!weights.q_weight.empty())
      tensors[name_of(layer, kQuerySuffix)] = {{shape.num_q_heads, shape.head_dim, gate.hidden},
                                               weights.q_weight};
  }
  write_safetensors(path, tensors, gate.metadata);
}

}  // namespace kvloupe::selection
