#include "core/replay/recorded_keys.h"

#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/replay/key_facts.h"
#include "core/replay/method_choice.h"
#include "core/replay/request_checks.h"

#include <fmt/format.h>

#include <utility>

namespace kvloupe::replay {

RecordedRuns::RecordedRuns(const session::TraceSession& session, int run, int layer,
                           const std::string& device)
    : session_(session),
      layer_(checked_layers_of_run(session, run, {layer}).front()),
      record_(session.reader().read_run(run, layer)),
      cells_(session, device::torch_device(device)) {
  const trace::RunInfo& info = recorded_run_of(session.info(), run);
  layout_ = {info.row_axis, info.q_heads_per_row};
}

CellRun RecordedRuns::step(int chunk) {
  const auto& chunks = session_.info().chunks;
  check_chunk(chunk, chunks.size());
  const auto index = static_cast<std::size_t>(chunk);
  CellRun run;
  run.cell = cells_.load(layer_, chunk, chunks[index]);
  static_cast<trace::CellRecord&>(run.selection) = record_.cells.at(index);
  CellMass truth = cell_mass_and_lse(run.cell, layout_);
  run.mass = std::move(truth.mass);
  run.lse = std::move(truth.lse);
  return run;
}

std::uint16_t RecordedRuns::evicted_after(int row, std::int64_t key) const {
  if (record_.evict_chunk.empty()) return trace::kAlive;
  return record_.evict_chunk.at(static_cast<std::size_t>(row)).at(static_cast<std::size_t>(key));
}

Explanation explain_recorded(const session::TraceSession& session, int run,
                             const ExplainRequest& request) {
  RecordedRuns cells(session, run, request.layer, request.device);
  const CellRun here = cells.step(request.chunk);
  Explanation why;
  why.method = recorded_run_of(session.info(), run).method;
  why.run = run;
  why.layer = request.layer;
  why.chunk = request.chunk;
  why.row = request.row;
  why.layout = cells.layout();
  why.key = request.key;
  describe(here, why);
  add_voters(here, {}, why);
  const std::uint16_t died = cells.evicted_after(request.row, request.key);
  if (died < request.chunk) {
    why.lost_at = Stage::Evicted;
    why.stages.push_back({Stage::Evicted, false, fmt::format("evicted after chunk {}", died)});
  }
  return why;
}

}  // namespace kvloupe::replay
