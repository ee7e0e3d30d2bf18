// One number for every layer and head: where to look first.
#pragma once

#include "core/analysis/matrix.h"
#include "core/replay/averages.h"
#include "core/replay/numbers.h"
#include "core/session/session.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::analysis {

// What a head can be measured by: of a method, MergeLoss and OutputError among them; or of attention alone.
inline constexpr std::array kOverviewNumbers{
    replay::Number::MassRecall,        // per KV head, of the chosen method
    replay::Number::TopkOverlap,       // per KV head
    replay::Number::Gap,               // per KV head
    replay::Number::SpanKept,          // per KV head
    replay::Number::MergeLoss,         // per row, mean over its query heads
    replay::Number::OutputError,       // per query head
    replay::Number::RelevancePearson,  // per query head
    replay::Number::Entropy,           // per query head
};
constexpr bool needs_method(replay::Number number) {
  return number != replay::Number::RelevancePearson && number != replay::Number::Entropy;
}

struct Overview {
  replay::Number number = replay::Number::MassRecall;
  // A mean over chunks is of those of the prompt; where none of them chose, of the decode steps.
  trace::Phase phase = trace::Phase::Prefill;
  std::vector<int> layers;  // rows
  bool per_kv_head = true;  // columns: KV heads, else query heads
  // [layers, heads]. NaN where nothing was selected; of a span, where none of it is a candidate.
  Matrix values;
  // Of a replay: (layer, chunk) of the cells that chose, of both phases, ascending.
  std::vector<std::pair<int, int>> cells = {};
};

// From a replay that has the number: the mean over the cells of Overview::phase with no dense reason, in
// `chunks` (ascending; none: all). SpanKept is of `span`, and the sets alone are enough for it.
Overview overview_of_replay(const replay::ReplayResult& result, replay::Number number,
                            const std::vector<int>& chunks = {},
                            const std::optional<trace::KeySet>& span = {});
// RowMetrics::span_gap, averaged as overview_of_replay() averages: [layers, heads], NaN where it was not measured.
Matrix span_gap_of_replay(const replay::ReplayResult& result, const std::vector<int>& chunks,
                          const trace::KeySet& span);
// MergeLoss: each head of a cell is asked alone, which nothing else needs. The mean over those of
// `chunks` (as above) in which heads were merged. `spec` is resolved. Throws as replay().
Overview overview_of_merge(const session::TraceSession& session, const selection::MethodSpec& spec,
                           const std::vector<int>& chunks, const std::string& device,
                           const WorkContext& context);
// RelevancePearson and Entropy: of one chunk.
Overview overview_of_attention(const session::TraceSession& session, replay::Number number,
                               int chunk, const WorkContext& context);

}  // namespace kvloupe::analysis
