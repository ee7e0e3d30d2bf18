// Names of the enumerations and the small questions that the plain types answer.
#include "core/trace/trace_types.h"

#include "core/trace/fields/trace_names.h"
#include "core/trace/queries_note.h"

#include <fmt/format.h>

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

std::int64_t TraceInfo::num_queries() const {
  return query_offsets.empty() ? num_tokens : query_offsets.back();
}

bool TraceInfo::has_queries(int chunk) const {
  const auto index = static_cast<std::size_t>(chunk);
  return query_offsets.empty() || query_offsets[index + 1] > query_offsets[index];
}

std::vector<int> TraceInfo::chunks_with_queries() const {
  std::vector<int> found;
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk)
    if (has_queries(chunk)) found.push_back(chunk);
  return found;
}

std::vector<TokenRange> TraceInfo::query_ranges() const {
  std::vector<TokenRange> ranges;
  for (const int chunk : chunks_with_queries()) {
    const ChunkInfo& here = chunks[static_cast<std::size_t>(chunk)];
    if (ranges.empty() || ranges.back().end != here.begin) ranges.push_back({here.begin, 0});
    ranges.back().end = here.end();
  }
  return ranges;
}

void TraceInfo::cut_query_offsets() {
  if (!query_offsets.empty()) query_offsets.resize(chunks.size() + 1);
}

std::string text_of_query_chunks(const TraceInfo& info) {
  const std::vector<int> chunks = info.chunks_with_queries();
  return chunks.empty() ? "no chunk" : text_of_chunks(chunks);
}

Error lacks_queries(const TraceInfo& info, int chunk) {
  if (info.chunks_with_queries().empty())
    return input_error(fmt::format("chunk {} cannot be computed", chunk),
                       "the trace holds the queries of no chunk", "record again with queries=all");
  return input_error(fmt::format("chunk {} cannot be computed", chunk),
                     fmt::format("its queries are not in the trace, which has those of {} alone",
                                 text_of_query_chunks(info)),
                     "choose one of these chunks, or record again with queries=all");
}

void require_queries(const TraceInfo& info, int num_chunks, const std::string& what) {
  for (int chunk = 0; chunk < num_chunks; ++chunk)
    if (!info.has_queries(chunk))
      throw input_error(what,
                        fmt::format("it needs the queries of chunk {}, and the trace has those of "
                                    "{} alone",
                                    chunk, text_of_query_chunks(info)),
                        "record again with queries=all");
}

std::vector<int> with_queries(const TraceInfo& info, const std::vector<int>& chunks) {
  std::vector<int> having = chunks;
  std::erase_if(having, [&](int chunk) { return !info.has_queries(chunk); });
  return having.empty() ? chunks : having;
}

const RunInfo* TraceInfo::closed_loop_run() const {
  if (mode != LoopMode::ClosedLoop) return nullptr;
  const auto found = std::find_if(runs.begin(), runs.end(), [](const RunInfo& run) {
    return run.mode == LoopMode::ClosedLoop && !run.from_sidecar;
  });
  return found == runs.end() ? nullptr : &*found;
}

bool TraceInfo::has_layer(int layer) const {
  return std::binary_search(layers.begin(), layers.end(), layer);
}

}  // namespace kvloupe::trace
