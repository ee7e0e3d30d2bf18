#include "core/analysis/method_averages.h"

#include "core/base/error.h"
#include "core/selection/selector.h"

#include <optional>
#include <utility>

namespace kvloupe::analysis {
namespace {

// Averages cells as they come, layer-major, and notes which were averaged.
class Collector {
 public:
  Collector(const std::optional<selection::MethodSpec>& spec, int q_heads_per_row,
            const session::TraceSession& session)
      : averager_(spec, q_heads_per_row, session) {}

  void add(const replay::ReplayCell& cell) {
    averager_.add(cell);
    PhaseAverages& phase =
        cell.span.phase == trace::Phase::Prefill ? averages_.prefill : averages_.decode;
    phase.all_cells += static_cast<std::int64_t>(cell.rows.size());
    if (!cell.dense_reason) phase.averaged.emplace(cell.layer, cell.chunk);
  }

  MethodAverages finish(const replay::ReplayResult& result) {
    for (replay::CompareRow& row : averager_.rows(result)) {
      if (row.scope != "all") continue;
      PhaseAverages& phase = row.phase == "prefill" ? averages_.prefill : averages_.decode;
      phase.means = std::move(row);
    }
    return std::move(averages_);
  }

 private:
  replay::Averager averager_;
  MethodAverages averages_;
};

}  // namespace

MethodAverages average_anew(const session::TraceSession& session, const selection::MethodSpec& spec,
                            const std::vector<int>& layers, const WorkContext& context) {
  replay::ReplayRequest request;
  request.layers = layers;
  request.want_output_error = true;
  const selection::RowLayout layout = selection::row_layout(spec, session.shape());
  Collector collector(spec, layout.q_heads_per_row, session);
  const auto results = replay::replay_methods(
      session, {spec}, request,
      [&](std::size_t, replay::ReplayCell&& cell) { collector.add(cell); }, context);
  return collector.finish(results.front());
}

MethodAverages average_recorded(const session::TraceSession& session, int run,
                                const std::vector<int>& layers, const WorkContext& context) {
  std::optional<Collector> collector;
  replay::ReplayResult last;
  std::int64_t done = 0;
  // One layer at a time: the sets of all of them need not fit into memory.
  for (const int layer : layers) {
    last =
        replay::recorded_run(session, run, {layer}, std::nullopt, true, true, {context.cancel, {}});
    if (!collector) collector.emplace(last.spec, last.q_heads_per_row, session);
    for (const replay::ReplayCell& cell : last.cells) collector->add(cell);
    context.report(++done, static_cast<std::int64_t>(layers.size()), "measuring");
  }
  KVLOUPE_CHECK(collector.has_value());
  MethodAverages averages = collector->finish(last);
  for (PhaseAverages* phase : {&averages.prefill, &averages.decode})
    if (phase->means.forced == 0.0) phase->means.forced.reset();
  return averages;
}

}  // namespace kvloupe::analysis
