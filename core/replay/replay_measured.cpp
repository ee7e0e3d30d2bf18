// What recorded runs are worth.
#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/replay/cell_metrics.h"
#include "core/replay/replay.h"
#include "core/replay/replay_steps.h"
#include "core/replay/request_checks.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::replay {
namespace {

// What pruned lanes cost is not recorded. It is found by selecting afresh, if the basis that the
// run used is at hand; else it stays unknown and `result` says so.
void add_lane_errors(const session::TraceSession& session, const trace::RunInfo& run,
                     const ReplayRequest& request, const WorkContext& context,
                     ReplayResult& result) {
  const auto unknown = [&](const std::string& why) {
    result.notes.push_back(
        fmt::format("the errors of run {} ({}) are not known: {}", run.id, run.method, why));
  };
  try {
    const ReplayResult afresh = replay(session, request, context);
    if (!afresh.basis || afresh.basis->hash != run.basis_hash) {
      unknown("the basis that it used is not the one at hand");
      return;
    }
    KVLOUPE_CHECK(afresh.cells.size() == result.cells.size());
    for (std::size_t i = 0; i < result.cells.size(); ++i) {
      result.cells[i].output_error = afresh.cells[i].output_error;
      result.cells[i].score_error = afresh.cells[i].score_error;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    unknown(error.why());
  }
}

ReplayResult read_chunks(const session::TraceSession& session, int run,
                         const std::vector<int>& layers, const std::vector<int>& chunks,
                         const WorkContext& context) {
  if (chunks.size() == 1) return read_run(session, run, layers, chunks.front(), context);
  ReplayResult result = read_run(session, run, layers, std::nullopt, context);
  if (chunks.empty()) return result;
  const std::vector<int> asked = checked_chunks(session.info(), chunks, result.chunks.size());
  std::erase_if(result.cells, [&](const ReplayCell& cell) {
    return !std::binary_search(asked.begin(), asked.end(), cell.chunk);
  });
  if (asked.back() + 1 != static_cast<int>(result.chunks.size())) result.final_alive.clear();
  return result;
}

}  // namespace

void add_metrics(const session::TraceSession& session, ReplayResult& result, const Wanted& wanted,
                 const WorkContext& context, const std::string& device) {
  const selection::RowLayout layout{result.row_axis, result.q_heads_per_row};
  session::CellLoader cells(session, device::torch_device(device));
  std::int64_t done = 0;
  for (ReplayCell& cell : result.cells) {
    context.cancel.throw_if_cancelled();
    Wanted of_cell = wanted;
    of_cell.output_error &= cell.lane_counts.empty();
    if (of_cell.mass || of_cell.span || of_cell.output_error) {
      const selection::Cell loaded = cells.load(cell.layer, cell.chunk, cell.span);
      CellTruth truth(loaded, of_cell);
      selection::CellSelection selection;
      static_cast<trace::CellRecord&>(selection) = cell;
      measure(session.info().model, loaded, truth, result.spec, layout, selection, of_cell, cell);
    }
    context.report(++done, static_cast<std::int64_t>(result.cells.size()), "measuring");
  }
}

ReplayResult recorded_run(const session::TraceSession& session, int run,
                          const std::vector<int>& layers, const std::vector<int>& chunks,
                          bool want_mass, bool want_output_error, const WorkContext& context,
                          const std::string& device) {
  const bool measures = want_mass || want_output_error;
  const trace::TraceInfo& info = session.info();
  ReplayResult result = read_chunks(session, run, layers,
                                    measures && !info.query_offsets.empty()
                                        ? checked_chunks(info, chunks, info.chunks.size())
                                        : chunks,
                                    context);
  if (!measures) return result;
  add_metrics(session, result, {want_mass, want_output_error}, context, device);
  const trace::RunInfo& recorded = recorded_run_of(info, run);
  if (result.spec && recorded.granularity == trace::Granularity::Lane) {
    ReplayRequest request;
    request.spec = *result.spec;
    request.layers = result.layers;
    request.chunks = chunks;
    request.want_mass = want_mass;
    request.want_output_error = want_output_error;
    request.device = device;
    add_lane_errors(session, recorded, request, context, result);
  }
  return result;
}

}  // namespace kvloupe::replay
