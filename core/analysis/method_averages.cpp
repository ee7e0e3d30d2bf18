#include "core/analysis/method_averages.h"

#include "core/base/error.h"
#include "core/selection/selector.h"

#include <utility>

namespace kvloupe::analysis {

MethodAverages::MethodAverages(replay::Averager cells, const replay::ReplayResult& result,
                               bool knows_forced)
    : cells_(std::move(cells)), knows_forced_(knows_forced) {
  method_.method = result.method;
  method_.basis = result.basis;
}

replay::CompareRow MethodAverages::means(trace::Phase phase, const replay::Places* among) const {
  replay::CompareRow row = cells_.overall(method_, phase, {.among = among});
  if (!knows_forced_ && row.forced == 0.0) row.forced.reset();
  return row;
}

MethodAverages average_anew(const session::TraceSession& session, const selection::MethodSpec& spec,
                            const std::vector<int>& layers,
                            const std::optional<replay::KeySpan>& span, const WorkContext& context,
                            const std::string& device) {
  replay::ReplayRequest request;
  request.device = device;
  request.layers = layers;
  request.want_output_error = true;
  const selection::RowLayout layout = selection::row_layout(spec, session.shape());
  replay::Averager cells(spec, layout.q_heads_per_row, session, span);
  const auto results = replay::replay_methods(
      session, {spec}, request, [&](std::size_t, replay::ReplayCell&& cell) { cells.add(cell); },
      context);
  return {std::move(cells), results.front(), true};
}

MethodAverages average_recorded(const session::TraceSession& session, int run,
                                const std::vector<int>& layers,
                                const std::optional<replay::KeySpan>& span,
                                const WorkContext& context) {
  std::optional<replay::Averager> cells;
  replay::ReplayResult last;
  std::int64_t done = 0;
  // One layer at a time: the sets of all of them need not fit into memory.
  for (const int layer : layers) {
    last =
        replay::recorded_run(session, run, {layer}, std::nullopt, true, true, {context.cancel, {}});
    if (!cells) cells.emplace(last.spec, last.q_heads_per_row, session, span);
    for (const replay::ReplayCell& cell : last.cells) cells->add(cell);
    context.report(++done, static_cast<std::int64_t>(layers.size()), "measuring");
  }
  KVLOUPE_CHECK(cells.has_value());
  return {std::move(*cells), last, false};
}

}  // namespace kvloupe::analysis
