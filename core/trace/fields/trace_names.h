// The words that stand in a trace for the enumerations of trace_types.h.
#pragma once

#include "core/trace/trace_types.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace kvloupe::trace {

constexpr std::string_view kTraceFormat = "kvloupe-trace";
constexpr std::string_view kResultsFormat = "kvloupe-results";
constexpr std::string_view kSidecarFormat = "kvloupe-runs";
constexpr int kSchemaMajor = 1;
// The most tokens that a reader accepts; a probe is a sentence or two.
constexpr int kMaxProbeTokens = 4096;
constexpr int kMaxBlockSize = 1 << 20;

// In the order of the enumerators.
using Names = std::span<const std::string_view>;
Names names_of(LoopMode);
Names names_of(DType);
Names names_of(ComputeType);
Names names_of(RopePairing);
Names names_of(LayerType);
Names names_of(RowAxis);
Names names_of(Granularity);
Names names_of(StateAction);
Names names_of(BudgetScope);
Names names_of(Lowering);

template <typename Enum>
std::string_view to_text(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

template <typename Enum>
std::optional<Enum> from_text(std::string_view text) {
  const Names names = names_of(Enum());
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Rows that a run of this kind has per chunk.
int num_rows_of(const RunInfo& run, const ModelInfo& model);

}  // namespace kvloupe::trace
