// Names of the enumerations and the small questions that the plain types answer.
#include "core/trace/trace_types.h"

#include "core/trace/fields/trace_names.h"

#include <algorithm>
#include <array>

namespace kvloupe::trace {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 2> kLoopModes = {"open_loop", "closed_loop"};
constexpr std::array<std::string_view, 2> kDTypes = {"f16", "f32"};
constexpr std::array<std::string_view, 3> kComputeTypes = {"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 2> kRopePairings = {"interleaved", "half_split"};
constexpr std::array<std::string_view, 3> kLayerTypes = {"full", "sliding", "nope"};
constexpr std::array<std::string_view, 3> kRowAxes = {"kv_head", "q_head", "subgroup"};
constexpr std::array<std::string_view, 5> kGranularities = {"token", "page", "block", "lane",
                                                            "none"};
constexpr std::array<std::string_view, 2> kStateActions = {"visibility", "eviction"};
constexpr std::array<std::string_view, 2> kBudgetScopes = {"past", "all"};
constexpr std::array<std::string_view, 3> kLowerings = {"native", "union", "budget"};

template <typename Enum, typename Names>
std::string_view name_of(const Names& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

template <typename Enum, typename Names>
std::optional<Enum> find_name(const Names& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view to_text(LoopMode value) { return name_of(kLoopModes, value); }
std::string_view to_text(DType value) { return name_of(kDTypes, value); }
std::string_view to_text(ComputeType value) { return name_of(kComputeTypes, value); }
std::string_view to_text(RopePairing value) { return name_of(kRopePairings, value); }
std::string_view to_text(LayerType value) { return name_of(kLayerTypes, value); }
std::string_view to_text(RowAxis value) { return name_of(kRowAxes, value); }
std::string_view to_text(Granularity value) { return name_of(kGranularities, value); }
std::string_view to_text(StateAction value) { return name_of(kStateActions, value); }
std::string_view to_text(BudgetScope value) { return name_of(kBudgetScopes, value); }
std::string_view to_text(Lowering value) { return name_of(kLowerings, value); }

template <>
std::optional<LoopMode> from_text(std::string_view text) {
  return find_name<LoopMode>(kLoopModes, text);
}
template <>
std::optional<DType> from_text(std::string_view text) {
  return find_name<DType>(kDTypes, text);
}
template <>
std::optional<ComputeType> from_text(std::string_view text) {
  return find_name<ComputeType>(kComputeTypes, text);
}
template <>
std::optional<RopePairing> from_text(std::string_view text) {
  return find_name<RopePairing>(kRopePairings, text);
}
template <>
std::optional<LayerType> from_text(std::string_view text) {
  return find_name<LayerType>(kLayerTypes, text);
}
template <>
std::optional<RowAxis> from_text(std::string_view text) {
  return find_name<RowAxis>(kRowAxes, text);
}
template <>
std::optional<Granularity> from_text(std::string_view text) {
  return find_name<Granularity>(kGranularities, text);
}
template <>
std::optional<StateAction> from_text(std::string_view text) {
  return find_name<StateAction>(kStateActions, text);
}
template <>
std::optional<BudgetScope> from_text(std::string_view text) {
  return find_name<BudgetScope>(kBudgetScopes, text);
}
template <>
std::optional<Lowering> from_text(std::string_view text) {
  return find_name<Lowering>(kLowerings, text);
}

SoftmaxForm ModelInfo::softmax_of(int layer) const {
  const auto found = shaped_softmax.find(layer);
  return found == shaped_softmax.end() ? SoftmaxForm(softmax_scale) : found->second;
}

bool ModelInfo::lacks_window(int layer) const {
  return static_cast<std::size_t>(layer) < layer_types.size() &&
         layer_types[layer] == LayerType::Sliding && softmax_of(layer).window == 0;
}

int num_rows_of(const RunInfo& run, const ModelInfo& model) {
  switch (run.row_axis) {
    case RowAxis::KvHead: return model.num_kv_heads;
    case RowAxis::QHead: return model.num_q_heads;
    case RowAxis::Subgroup: return model.num_q_heads / run.q_heads_per_row;
  }
  return model.num_kv_heads;
}

int TraceInfo::chunk_of_token(std::int32_t token_pos) const {
  const auto after =
      std::upper_bound(chunks.begin(), chunks.end(), token_pos,
                       [](std::int32_t pos, const ChunkInfo& chunk) { return pos < chunk.begin; });
  if (after == chunks.begin()) return -1;
  const auto chunk = std::prev(after);
  return token_pos < chunk->end() ? static_cast<int>(chunk - chunks.begin()) : -1;
}

bool TraceInfo::has_layer(int layer) const {
  return std::binary_search(layers.begin(), layers.end(), layer);
}

}  // namespace kvloupe::trace
