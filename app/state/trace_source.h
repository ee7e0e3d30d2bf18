// One open trace as the window sees it: its facts and the analyses it can be asked for. The real
// one is a TraceSession; tests give one that waits or fails on purpose.
#pragma once

#include "core/analysis/attention_map.h"
#include "core/analysis/kv_map.h"
#include "core/analysis/lane_report.h"
#include "core/analysis/overview.h"
#include "core/analysis/page_report.h"
#include "core/analysis/query_geometry.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/base/cancel.h"
#include "core/measure/latency.h"
#include "core/replay/compare.h"
#include "core/replay/replay.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Members may be called from any thread; they throw kvloupe::Error.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  virtual const trace::TraceInfo& info() const = 0;
  virtual const std::vector<std::string>& token_texts() const = 0;  // raw bytes
  virtual selection::ModelShape shape() const = 0;

  virtual replay::ReplayResult replay(const replay::ReplayRequest& request,
                                      const WorkContext& context) const = 0;
  virtual replay::ReplayResult recorded_run(int run, const std::vector<int>& layers,
                                            std::optional<int> chunk, bool want_mass,
                                            bool want_output_error,
                                            const WorkContext& context) const = 0;
  virtual analysis::SelectedVsTrue selected_vs_true(const replay::ReplayCell& cell, int row,
                                                    int q_heads_per_row) const = 0;
  virtual std::vector<analysis::SpanFate> span_fate(const replay::ReplayResult& result,
                                                    const trace::TokenSpan& span,
                                                    const WorkContext& context) const = 0;
  virtual analysis::QueryGeometry query_geometry(int layer, int chunk, int q_head,
                                                 const std::optional<selection::MethodSpec>& method,
                                                 int max_keys,
                                                 const WorkContext& context) const = 0;
  virtual analysis::Overview attention_overview(analysis::OverviewMetric metric, int chunk,
                                                const WorkContext& context) const = 0;
  virtual analysis::Matrix attention_rows(int layer, int q_head, std::int32_t begin,
                                          std::int32_t end, const WorkContext& context) const = 0;
  virtual analysis::AttentionMap attention_map(int layer, int q_head, int max_side,
                                               const WorkContext& context) const = 0;
  virtual analysis::LaneReport lane_report(const selection::MethodSpec& spec, int layer, int chunk,
                                           int kv_head, const WorkContext& context) const = 0;
  virtual analysis::PageReport page_report(const selection::MethodSpec& spec,
                                           const replay::ReplayResult& replay, int layer, int chunk,
                                           int q_head, const WorkContext& context) const = 0;
  virtual analysis::ReceivedRankings received_rankings(int layer, int first_q_head, int num_q_heads,
                                                       std::int32_t query_begin,
                                                       std::int32_t query_end,
                                                       std::int32_t num_keys,
                                                       const WorkContext& context) const = 0;
  // Why this trace cannot serve the (resolved) method; empty when it can.
  virtual std::string why_unavailable(const selection::MethodSpec& spec,
                                      const WorkContext& context) const = 0;
  virtual std::vector<replay::CompareRow> summarise(const replay::ReplayResult& result) const = 0;
  virtual measure::LatencyReport measure_latency(
      const selection::MethodSpec& spec, int layer, int chunk, const WorkContext& context,
      const std::function<void(const measure::LatencyReport&)>& on_sample) const = 0;
};

using TraceSourcePtr = std::shared_ptr<const TraceSource>;

// Opens the file. memory_limit 0: the default.
TraceSourcePtr open_trace(const std::string& path, std::uint64_t memory_limit);

}  // namespace kvloupe::state
