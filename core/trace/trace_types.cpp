// Names of the enumerations and the small questions that the plain types answer.
#include "core/trace/trace_types.h"

#include "core/trace/fields/trace_names.h"

#include <algorithm>

namespace kvloupe::trace {
namespace {

// In the order of the enumerators.
constexpr std::string_view kLoopModes[] = {"open_loop", "closed_loop"};
constexpr std::string_view kDTypes[] = {"f16", "f32"};
constexpr std::string_view kComputeTypes[] = {"fp32", "bf16", "fp16"};
constexpr std::string_view kRopePairings[] = {"interleaved", "half_split"};
constexpr std::string_view kLayerTypes[] = {"full", "sliding", "nope"};
constexpr std::string_view kRowAxes[] = {"kv_head", "q_head", "subgroup"};
constexpr std::string_view kGranularities[] = {"token", "page", "block", "lane", "none"};
constexpr std::string_view kStateActions[] = {"visibility", "eviction"};
constexpr std::string_view kBudgetScopes[] = {"past", "all"};
constexpr std::string_view kLowerings[] = {"native", "union", "budget"};

}  // namespace

Names names_of(LoopMode) { return kLoopModes; }
Names names_of(DType) { return kDTypes; }
Names names_of(ComputeType) { return kComputeTypes; }
Names names_of(RopePairing) { return kRopePairings; }
Names names_of(LayerType) { return kLayerTypes; }
Names names_of(RowAxis) { return kRowAxes; }
Names names_of(Granularity) { return kGranularities; }
Names names_of(StateAction) { return kStateActions; }
Names names_of(BudgetScope) { return kBudgetScopes; }
Names names_of(Lowering) { return kLowerings; }

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
