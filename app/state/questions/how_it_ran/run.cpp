#include "app/state/questions/how_it_ran/run.h"

#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/replay/kv_bytes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {

RunQuestion::Answer RunQuestion::work(Steps& steps) const {
  const std::vector<int> layers{place.layer};
  if (method.recorded())
    return replay::read_run(*place.trace->session, method.run, layers, std::nullopt, steps.context);
  return run_method(place, method, layers, {}, false, false, steps.context);
}

std::uint64_t RunQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer);
  for (const replay::ReplayCell& cell : answer.cells) {
    sum += sizeof(cell);
    for (const trace::SelectedRow& row : cell.rows)
      sum += sizeof(row) + (row.positions.size() + row.forced.size()) * sizeof(row.positions[0]);
    sum += cell.lane_counts.size() * sizeof(cell.lane_counts[0]);
    if (cell.blocks) sum += cell.blocks->kept.size() + cell.blocks->forced.size();
  }
  for (const auto& layer : answer.evict_chunk)
    for (const auto& row : layer) sum += row.size() * 2;
  return sum;
}

std::string MeasuredRunQuestion::title() const {
  return fmt::format("Measuring {} in layer {}", method.id(), place.layer);
}

MeasuredRunQuestion::Answer MeasuredRunQuestion::work(Steps& steps) const {
  // What lanes cost is found by selecting anew; all else is measured on the sets.
  const auto sets = steps.need(RunQuestion{place, method});
  if (!sets->cells.empty() && !sets->cells.front().lane_counts.empty())
    return run_method(place, method, {place.layer}, {}, true, false, steps.context);
  replay::ReplayResult measured = *sets;
  // The sets may be recorded of all chunks, and the attention that they keep be known of some.
  std::erase_if(measured.cells, [&](const replay::ReplayCell& cell) {
    return !place.info().has_queries(cell.chunk);
  });
  engine().add_metrics(*place.trace->session, measured, {true, false}, steps.context, place.device);
  return measured;
}

replay::ReplayResult run_method(const Place& place, const MethodChoice& method,
                                const std::vector<int>& layers, const std::vector<int>& chunks,
                                bool want_mass, bool want_output_error,
                                const WorkContext& context) {
  const session::TraceSession& session = *place.trace->session;
  if (method.recorded())
    return engine().recorded_run(session, method.run, layers, chunks, want_mass, want_output_error,
                                 context, place.device);
  KVLOUPE_CHECK(method.known());
  const replay::ReplayRequest request{*method.spec,      layers,      chunks, {}, want_mass,
                                      want_output_error, place.device};
  return engine().replay(session, request, context);
}

int row_of(const Place& place, const replay::ReplayResult& replay) {
  return place.q_head / std::max(1, replay.q_heads_per_row);
}

MethodFacts::Chunk MethodFacts::at(int chunk) const {
  const auto index = static_cast<std::size_t>(chunk);
  return index < chunks.size() ? chunks[index] : Chunk{};
}

MethodFacts facts_of(const Place& place, const MethodChoice& method) {
  MethodFacts facts;
  facts.choice = method;
  facts.source_mode = place.info().mode;
  if (method.known()) {
    const selection::Traits& traits = method.spec->traits();
    facts.prunes_lanes = traits.lanes.has_value();
    facts.evicts = traits.evicts();
    facts.decode_dense = !traits.acts_in_decode;
    if (method.spec->has_budget())
      facts.scope = method.spec->scope() == selection::BudgetScope::Past ? "past" : "all";
  }
  if (const trace::RunInfo* run = method.run_info(place.info())) {
    facts.mode = run->mode;
    facts.leakage = run->basis_leakage;
    facts.decode_dense = run->decode_dense;
    facts.evicts = run->state_action == trace::StateAction::Eviction;
    facts.prunes_lanes = run->granularity == trace::Granularity::Lane;
  }
  return facts;
}

namespace {

// Means over the prefill cells of one row that selected.
void add_row(const replay::ReplayResult& run, std::size_t row, MethodFacts& facts) {
  double requested = 0, effective = 0, forced = 0;
  int budgets = 0;
  for (const replay::ReplayCell& cell : run.cells) {
    facts.source_layer = cell.source_layer;
    facts.chunks.resize(static_cast<std::size_t>(cell.chunk) + 1);
    if (row >= cell.rows.size()) continue;
    facts.chunks.back() = {cell.dense_reason, cell.rows[row].ties_at_cut,
                           std::ssize(cell.rows[row].positions)};
    if (cell.span.phase != trace::Phase::Prefill) continue;
    if (cell.dense_reason) {
      ++facts.dense_cells;
      continue;
    }
    ++facts.cells;
    effective += static_cast<double>(cell.rows[row].positions.size());
    forced += static_cast<double>(cell.rows[row].forced.size());
    if (cell.budget_tokens) {
      requested += static_cast<double>(*cell.budget_tokens);
      ++budgets;
    }
  }
  if (facts.cells > 0) {
    facts.effective_budget = effective / facts.cells;
    facts.forced = forced / facts.cells;
  }
  if (budgets > 0) facts.requested_budget = requested / budgets;
}

}  // namespace

MethodFacts facts_of(const Place& place, const MethodChoice& method,
                     const replay::ReplayResult& run) {
  MethodFacts facts = facts_of(place, method);
  facts.has_run = true;
  add_row(run, static_cast<std::size_t>(row_of(place, run)), facts);
  if (facts.effective_budget)
    facts.bytes = static_cast<std::uint64_t>(
        *facts.effective_budget *
        static_cast<double>(replay::bytes_per_key(method.spec, place.info())));
  facts.basis = run.basis;
  facts.leakage |= run.basis && run.basis->leakage;
  return facts;
}

FactsQuestion::Answer FactsQuestion::work(Steps& steps) const {
  return facts_of(place, method, *steps.need(RunQuestion{place, method}));
}

std::shared_ptr<const MethodFacts> known_facts(Workspace& workspace, const Place& place,
                                               const MethodChoice& method) {
  const auto facts = workspace.ask(FactsQuestion{place, method});
  return facts ? facts.answer : std::make_shared<MethodFacts>(facts_of(place, method));
}

}  // namespace kvloupe::state
