// One number for every layer and head: where to look first.
#pragma once

#include "core/analysis/pyramid.h"
#include "core/replay/averages.h"
#include "core/session/session.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

enum class OverviewMetric {
  MassRecall,        // per KV head, of the chosen method
  TopkOverlap,       // per KV head
  Gap,               // per KV head: the oracle's recall with as many keys, less the method's
  SpanKept,          // per KV head: share of a watched span's keys
  MergeLoss,         // per row: recall that its query heads lose by sharing one set, mean over them
  OutputError,       // per query head
  RelevancePearson,  // per query head: Pearson r of S_q against the largest attention; method-free
  Entropy,           // per query head: mean row entropy of attention in nats; method-free
};
// "mass_recall", ... Of the header alone: the list of views names the metrics before anything that
// computes is loaded.
constexpr const char* name_of(OverviewMetric metric) {
  switch (metric) {
    case OverviewMetric::MassRecall:
      return "mass_recall";
    case OverviewMetric::TopkOverlap:
      return "topk_overlap";
    case OverviewMetric::Gap:
      return "gap";
    case OverviewMetric::SpanKept:
      return "span_kept";
    case OverviewMetric::MergeLoss:
      return "merge_loss";
    case OverviewMetric::OutputError:
      return "output_error";
    case OverviewMetric::RelevancePearson:
      return "relevance_pearson";
    case OverviewMetric::Entropy:
      return "entropy";
  }
  return "";
}
constexpr bool needs_method(OverviewMetric metric) {
  return metric != OverviewMetric::RelevancePearson && metric != OverviewMetric::Entropy;
}

struct Overview {
  OverviewMetric metric = OverviewMetric::MassRecall;
  // A mean over chunks is of those of the prompt; where none of them chose, of the decode steps.
  trace::Phase phase = trace::Phase::Prefill;
  std::vector<int> layers;  // rows
  bool per_kv_head = true;  // columns: KV heads, else query heads
  // [layers, heads]. NaN where nothing was selected; of a span, where none of it is a candidate.
  Matrix values;
};

// From a replay that has the metric: of one chunk, or the mean over the cells of Overview::phase with no
// dense reason. SpanKept is of `span`, and the sets alone are enough for it.
Overview overview_of_replay(const replay::ReplayResult& result, OverviewMetric metric,
                            int chunk = -1, const std::optional<replay::KeySpan>& span = {});
// MergeLoss: each head of a cell is asked alone, which nothing else needs. Of one chunk, or the mean
// over the chunks in which heads were merged. `spec` is resolved. Throws as replay().
Overview overview_of_merge(const session::TraceSession& session, const selection::MethodSpec& spec,
                           std::optional<int> chunk, const std::string& device,
                           const WorkContext& context);
// RelevancePearson and Entropy: of one chunk.
Overview overview_of_attention(const session::TraceSession& session, OverviewMetric metric,
                               int chunk, const WorkContext& context);

}  // namespace kvloupe::analysis
