// Averages of several methods over the cells of a trace: the rows of `kvloupe compare`.
#pragma once

#include "core/analysis/replay.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

struct CompareRow {
  std::string method;
  std::string phase;       // "prefill" or "decode"
  std::string scope;       // all | layer | kv_head | chunk
  int index = 0;           // of the layer, KV head or chunk; 0 for all
  std::int64_t cells = 0;  // cells averaged: dense_reason null
  std::int64_t fallback_cells =
      0;  // dense_fallback: dense for want of keys, not by the method's rule
  std::optional<double> requested_budget, effective_budget;
  std::optional<double> mass_recall, topk_overlap, output_error, density;
};

// Unweighted means over (layer, row, chunk) cells whose dense_reason is null; decode apart.
std::vector<CompareRow> summarise(const ReplayResult& result, const TraceSession& session);

}  // namespace kvloupe::analysis
