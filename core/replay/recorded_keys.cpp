#include "core/replay/recorded_keys.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/torch_device.h"
#include "core/replay/key_facts.h"
#include "core/replay/method_choice.h"
#include "core/replay/request_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace kvloupe::replay {

namespace {

bool are_best(const selection::RowEvidence& evidence, const std::vector<std::int32_t>& kept) {
  std::vector<std::int32_t> best;
  const std::vector<std::int32_t> order = evidence.order();
  if (kept.size() > order.size()) return false;
  for (const std::int32_t unit : std::span(order).first(kept.size()))
    best.push_back(evidence.begin[static_cast<std::size_t>(unit)]);
  std::sort(best.begin(), best.end());
  return best == kept;
}

}  // namespace

RecordedRuns::RecordedRuns(const session::TraceSession& session, int run, int layer,
                           const std::string& device)
    : session_(session),
      run_(run),
      layer_(checked_layers_of_run(session, run, {layer}).front()),
      record_(session.reader().read_run(run, layer)),
      cells_(session, device::torch_device(device)) {
  const trace::RunInfo& info = recorded_run_of(session.info(), run);
  layout_ = {info.row_axis, info.q_heads_per_row};
}

CellRun RecordedRuns::step(int chunk, bool scores) {
  const auto& chunks = session_.info().chunks;
  check_chunk(chunk, chunks.size());
  const auto index = static_cast<std::size_t>(chunk);
  CellRun run;
  run.cell = cells_.load(layer_, chunk, chunks[index]);
  static_cast<trace::CellRecord&>(run.selection) = record_.cells.at(index);
  CellMass truth = cell_mass_and_lse(run.cell, layout_);
  run.mass = std::move(truth.mass);
  run.lse = std::move(truth.lse);
  if (scores) add_scores(chunk, run);
  return run;
}

std::vector<std::vector<float>> RecordedRuns::scores_of(int chunk) const {
  try {
    return session_.reader().read_run_scores(run_, layer_, chunk);
  } catch (const Error& error) {
    log::warning("the scores of run {} are left out: {}", run_, error.why());
    return {};
  }
}

void RecordedRuns::add_scores(int chunk, CellRun& run) const {
  const auto scores = scores_of(chunk);
  run.decided.resize(run.selection.rows.size());
  for (std::size_t row = 0; row < scores.size() && row < run.decided.size(); ++row) {
    if (scores[row].empty()) continue;
    const auto& kept = run.selection.rows[row].positions;
    selection::RowEvidence evidence = selection::evidence_of_keys(
        run.selection.first_candidate, scores[row], static_cast<std::int64_t>(kept.size()));
    // Scores by which other keys would be the best explain nothing.
    if (are_best(evidence, kept)) run.decided[row] = {layer_, chunk, std::move(evidence)};
  }
}

std::vector<Stage> RecordedRuns::stages() const {
  if (recorded_run_of(session_.info(), run_).state_action == trace::StateAction::Eviction)
    return {Stage::Evicted};
  if (session_.reader().has_run_scores(run_, layer_)) return {Stage::Budget};
  return {};
}

std::uint16_t RecordedRuns::evicted_after(int row, std::int64_t key) const {
  if (record_.evict_chunk.empty()) return trace::kAlive;
  return record_.evict_chunk.at(static_cast<std::size_t>(row)).at(static_cast<std::size_t>(key));
}

namespace {

// The best of the scores were kept, so a key's rank is the budget that keeps it, and nothing else lost it.
void by_scores(const selection::RowEvidence& evidence, const CellRun& run, Explanation& why) {
  describe_score(evidence, run, why);
  why.needed_budget = why.rank;
  if (!why.kept) why.lost_at = Stage::Budget;
  why.stages.push_back(
      {Stage::Budget, why.kept,
       fmt::format("rank {} of {}, {} kept", *why.rank, why.candidates, evidence.num_kept)});
}

}  // namespace

Explanation explain_recorded(const session::TraceSession& session, int run,
                             const ExplainRequest& request) {
  RecordedRuns cells(session, run, request.layer, request.device);
  const CellRun here = cells.step(request.chunk, true);
  Explanation why;
  why.method = recorded_run_of(session.info(), run).method;
  why.run = run;
  why.layer = request.layer;
  why.chunk = request.chunk;
  why.row = request.row;
  why.layout = cells.layout();
  why.key = request.key;
  describe(here, why);
  if (const auto& decided = here.decided.at(static_cast<std::size_t>(request.row)))
    by_scores(decided->evidence, here, why);
  add_voters(here, {}, why);
  const std::uint16_t died = cells.evicted_after(request.row, request.key);
  if (died < request.chunk) {
    why.lost_at = Stage::Evicted;
    why.stages.push_back({Stage::Evicted, false, fmt::format("evicted after chunk {}", died)});
  }
  return why;
}

}  // namespace kvloupe::replay
