// What views say of the methods: facts of the shown selections, lanes, and what a trace cannot
// serve.
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/replay/compare.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

// Means over the prefill cells of one row that selected.
void add_budgets(MethodFacts& facts, const replay::ReplayResult& replay, std::size_t row,
                 int chunk_here) {
  double requested = 0, effective = 0, forced = 0;
  int budgets = 0;
  for (const replay::ReplayCell& cell : replay.cells) {
    if (cell.chunk == chunk_here) {
      facts.source_layer = cell.source_layer;
      if (row < cell.rows.size()) facts.ties_here = cell.rows[row].ties_at_cut;
    }
    if (cell.span.phase != trace::Phase::Prefill || row >= cell.rows.size()) continue;
    if (cell.chunk == chunk_here) facts.dense_here = cell.dense_reason;
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

std::optional<MethodFacts> Workspace::facts(Slot slot) {
  const TraceTab* tab = ready();
  if (tab == nullptr || selection().choice(slot).empty()) return std::nullopt;
  MethodFacts facts;
  facts.choice = selection().choice(slot);
  const auto spec = selection::MethodSpec::parse(facts.choice.spec);
  facts.id = spec.id();
  facts.source_mode = info().mode;
  facts.prunes_lanes = analysis::prunes_lanes(spec);
  facts.evicts = spec.state_action() == trace::StateAction::Eviction;
  facts.decode_dense = !spec.info().active_in_decode;
  for (const trace::RunInfo& run : info().runs)
    if (run.id == facts.choice.run) {
      facts.mode = run.mode;
      facts.leakage = run.basis_leakage;
      facts.decode_dense = run.decode_dense;
    }
  if (spec.has_budget())
    facts.scope = spec.scope() == selection::BudgetScope::Past ? "past" : "all";

  const Result<replay::ReplayResult> source = replay(slot);
  if (source.state != ResultState::Ready) return facts;
  add_budgets(facts, *source, static_cast<std::size_t>(row_of(*source)), selection().chunk);
  if (facts.effective_budget)
    facts.bytes = static_cast<std::uint64_t>(
        *facts.effective_budget * static_cast<double>(replay::bytes_per_key(spec, info())));
  facts.basis = source->basis;
  facts.leakage |= source->basis && source->basis->leakage;
  return facts;
}

Result<analysis::LaneReport> Workspace::lane_report() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::LaneReport>("Open a trace");
  const Selection& s = selection();
  const MethodChoice& choice = s.choice(s.shown);
  const bool own =
      !choice.empty() && analysis::prunes_lanes(selection::MethodSpec::parse(choice.spec));
  const std::string method = own ? choice.spec : "aqua";
  return lane_reports_.request(
      "lanes", fmt::format("{}|{}|c{}|kv{}", place_key(), method, s.chunk, kv_head()),
      "Rotating queries and keys", Lane::Compute,
      [source = tab->source, method, layer = s.layer, chunk = s.chunk,
       head = kv_head()](const WorkContext& context) {
        const auto spec = selection::MethodSpec::parse(method).resolved(source->shape());
        return std::make_shared<analysis::LaneReport>(
            source->lane_report(spec, layer, chunk, head, context));
      },
      ResultCache<analysis::LaneReport>::Pace::Patient);
}

Result<Unavailable> Workspace::unavailable() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<Unavailable>("Open a trace");
  return unavailable_.request(
      "unavailable", fmt::format("{}", active_), "Asking which methods the trace can serve",
      Lane::TraceIo, [source = tab->source](const WorkContext& context) {
        auto reasons = std::make_shared<Unavailable>();
        for (const selection::MethodInfo& method : selection::catalogue()) {
          try {
            const auto spec = selection::MethodSpec::parse(method.id).resolved(source->shape());
            const std::string why = source->why_unavailable(spec, context);
            if (!why.empty()) (*reasons)[method.id] = why;
          } catch (const Error& error) {
            if (error.kind() == ErrorKind::Cancelled) throw;
            (*reasons)[method.id] = error.what();  // it needs a parameter that has no default
          }
        }
        return reasons;
      });
}

}  // namespace kvloupe::state
