// The words that stand in a trace for the enumerations of trace_types.h.
#pragma once

#include "core/trace/trace_types.h"

#include <optional>
#include <string_view>

namespace kvloupe::trace {

constexpr std::string_view kTraceFormat = "kvloupe-trace";
constexpr std::string_view kSidecarFormat = "kvloupe-runs";
constexpr int kSchemaMajor = 1;
// The most tokens that a reader accepts; a probe is a sentence or two.
constexpr int kMaxProbeTokens = 4096;
constexpr int kMaxBlockSize = 1 << 20;

std::string_view to_text(LoopMode value);
std::string_view to_text(DType value);
std::string_view to_text(ComputeType value);
std::string_view to_text(RopePairing value);
std::string_view to_text(LayerType value);
std::string_view to_text(RowAxis value);
std::string_view to_text(Granularity value);
std::string_view to_text(StateAction value);
std::string_view to_text(BudgetScope value);
std::string_view to_text(Lowering value);

template <typename Enum>
std::optional<Enum> from_text(std::string_view text);
template <>
std::optional<LoopMode> from_text(std::string_view text);
template <>
std::optional<DType> from_text(std::string_view text);
template <>
std::optional<ComputeType> from_text(std::string_view text);
template <>
std::optional<RopePairing> from_text(std::string_view text);
template <>
std::optional<LayerType> from_text(std::string_view text);
template <>
std::optional<RowAxis> from_text(std::string_view text);
template <>
std::optional<Granularity> from_text(std::string_view text);
template <>
std::optional<StateAction> from_text(std::string_view text);
template <>
std::optional<BudgetScope> from_text(std::string_view text);
template <>
std::optional<Lowering> from_text(std::string_view text);

// Rows that a run of this kind has per chunk.
int num_rows_of(const RunInfo& run, const ModelInfo& model);

}  // namespace kvloupe::trace
