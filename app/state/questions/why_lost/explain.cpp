#include "app/state/questions/why_lost/explain.h"

#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/workspace.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

using replay::KeyLife;

// Which keys a method decides on is known before it is run.
std::string why_undecided(const Place& place, const MethodChoice& method, std::int32_t position) {
  const trace::ChunkInfo& chunk = place.chunk_info();
  const std::string name = chunk_name(place.info(), place.chunk);
  if (position >= chunk.end())
    return fmt::format("Key {} comes after {}: nothing was decided about it here.",
                       format_count(position), name);
  const bool of_all =
      method.spec->has_budget() && method.spec->scope() == selection::BudgetScope::All;
  if (position >= chunk.begin && !of_all)
    return fmt::format("Key {} is one of {} itself: its queries see it, nothing was decided.",
                       format_count(position), name);
  const auto softmax = place.info().model.softmax_of(place.layer);
  if (position < softmax.first_visible(chunk.begin))
    return fmt::format("Layer {} sees {} keys back: key {} is hidden from {} whatever is kept.",
                       place.layer, format_count(softmax.window), format_count(position), name);
  return {};
}

}  // namespace

int row_of_method(const Place& place, const MethodChoice& method) {
  const auto layout = selection::row_layout(*method.spec, place.trace->shape());
  return place.q_head / std::max(1, layout.q_heads_per_row);
}

replay::ExplainRequest request_of(const Place& place, const MethodChoice& method,
                                  std::int32_t position) {
  replay::ExplainRequest request;
  request.spec = *method.spec;
  request.layer = place.layer;
  request.chunk = place.chunk;
  request.row = row_of_method(place, method);
  request.key = position;
  request.device = place.device;
  return request;
}

std::string why_not_anew(const Place& place, const MethodChoice& method, std::int32_t position) {
  const std::string obstacle = missing(place, method);
  if (!obstacle.empty()) return obstacle;
  if (position < 0) return kNoKeyChosen;
  if (position >= place.info().num_tokens) return "The trace ends before this key.";
  if (method.known()) return {};
  return unknown_method(method,
                        "it cannot be selected anew, so why it kept or lost a key is not known.");
}

std::string ExplainQuestion::title() const {
  return try_all_budgets
             ? fmt::format("Looking for the budget that keeps key {}", format_count(position))
             : fmt::format("Asking why {} kept or lost key {}", method.id(),
                           format_count(position));
}

std::string ExplainQuestion::obstacle() const {
  const std::string obstacle = OfKey::obstacle();
  return obstacle.empty() ? why_undecided(place, method, position) : obstacle;
}

ExplainQuestion::Answer ExplainQuestion::work(Steps& steps) const {
  replay::ExplainRequest request = request_of(place, method, position);
  request.want_needed_budget = try_all_budgets || !budget_takes_long();
  return engine().explain(*place.trace->session, request, steps.context);
}

std::uint64_t ExplainQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.rivals.size() * sizeof(answer.rivals[0]) +
                      answer.voters.size() * sizeof(answer.voters[0]);
  for (const replay::StageOutcome& stage : answer.stages)
    sum += sizeof(stage) + stage.detail.size();
  for (const replay::Counterfactual& what_if : answer.counterfactuals)
    sum += sizeof(what_if) + what_if.change.size();
  return sum;
}

bool ExplainQuestion::budget_takes_long() const {
  return method.known() && method.spec->has_budget() && !method.spec->traits().grows_with_budget;
}

ExplainNow with_budget(Workspace& workspace, const Result<ExplainQuestion>& first, bool search) {
  ExplainNow now{first};
  if (!search || first.state != ResultState::Ready || !now.may_look()) return now;
  ExplainQuestion thorough = first.question;
  thorough.try_all_budgets = true;
  const Result<ExplainQuestion> found = workspace.ask(thorough);
  now.looking_for_budget = found.state == ResultState::Loading;
  if (found) now.result = found;
  return now;
}

std::string SpanBudgetQuestion::obstacle() const {
  const auto span = watched_keys(place);
  const std::string obstacle = why_not_anew(place, method, span ? span->keys.first() : -1);
  if (!obstacle.empty()) return obstacle;
  return method.spec->has_budget() ? "" : "The method has no budget.";
}

SpanBudgetQuestion::Answer SpanBudgetQuestion::work(Steps& steps) const {
  const trace::KeySet keys = watched_keys(place)->keys;
  return engine().budget_of_span(*place.trace->session, request_of(place, method, keys.first()),
                                 keys, steps.context);
}

bool SpanBudgetQuestion::takes_long() const {
  return ExplainQuestion{place, method}.budget_takes_long();
}

std::string KeyLifeQuestion::title() const {
  return fmt::format("Following key {} through the chunks", format_count(position));
}

KeyLifeQuestion::Answer KeyLifeQuestion::work(Steps& steps) const {
  return engine().key_life(*place.trace->session, request_of(place, method, position),
                           steps.context);
}

ChunkSetsQuestion::Answer ChunkSetsQuestion::work(Steps& steps) const {
  // A run may cover fewer layers than the trace.
  if (method.recorded())
    return replay::read_run(*place.trace->session, method.run, {}, place.chunk, steps.context);
  return run_method(place, method, place.info().layers, {place.chunk}, false, false, steps.context);
}

std::string KeyFatesQuestion::title() const {
  return fmt::format("Following key {} through the layers", format_count(position));
}

std::string KeyFatesQuestion::obstacle() const {
  const std::string obstacle = OfRun::obstacle();
  return obstacle.empty() && position < 0 ? kNoKeyChosen : obstacle;
}

KeyFatesQuestion::Answer KeyFatesQuestion::work(Steps& steps) const {
  const auto sets = steps.need(ChunkSetsQuestion{place, method});
  const bool evicts = facts_of(place, method).evicts;
  Answer answer;
  answer.layers = sets->layers;
  answer.q_heads_per_row = std::max(1, sets->q_heads_per_row);
  answer.num_rows = place.info().model.num_q_heads / answer.q_heads_per_row;
  answer.axis = sets->row_axis;
  for (const int layer : answer.layers) {
    const replay::ReplayCell* cell = sets->find(layer, place.chunk);
    for (int row = 0; row < answer.num_rows; ++row) {
      Fate& fate = answer.fates.emplace_back();
      if (cell == nullptr || static_cast<std::size_t>(row) >= cell->rows.size()) continue;
      fate.state = replay::state_of_key(*cell, cell->span.end(), row, position, evicts);
      fate.dense = cell->dense_reason.has_value();
      const bool candidate =
          position >= cell->first_candidate && position < cell->end_of_candidates();
      if (!candidate || fate.dense) continue;
      ++answer.decided;
      if (fate.state == KeyLife::State::Kept) ++answer.kept;
    }
  }
  return answer;
}

std::string WatchedKeyQuestion::obstacle() const {
  return SpanFateQuestion{place, method}.obstacle();
}

WatchedKeyQuestion::Answer WatchedKeyQuestion::work(Steps& steps) const {
  const trace::KeySet watched = watched_keys(place)->keys;
  const auto cell = steps.need(SelectedVsTrueQuestion{place, method});
  Answer answer;
  for (const analysis::KeyRank& key : cell->cell.by_true_rank) {  // by falling mass
    if (!watched.contains(key.position)) continue;
    const bool lost =
        key.verdict == analysis::KeyVerdict::Miss || key.verdict == analysis::KeyVerdict::Neither;
    ++answer.num_candidates;
    if (answer.position < 0 || (lost && !answer.lost)) {
      answer.position = key.position;
      answer.missed = key.verdict == analysis::KeyVerdict::Miss;
    }
    answer.lost |= lost;
    answer.num_lost += lost;
  }
  if (answer.position < 0) answer.position = watched.first();
  return answer;
}

WatchedKey watched_key(Workspace& workspace) {
  WatchedKey watched;
  const Place& place = workspace.place();
  const auto span = watched_keys(place);
  if (!span) return watched;
  if (span->keys.size() == 1) {
    watched.position = span->keys.first();
    return watched;
  }
  watched.of_span = true;
  for (const Slot slot : kSlots) {
    if (workspace.method(slot).empty()) continue;
    const auto found = workspace.ask(WatchedKeyQuestion{place, workspace.method(slot)});
    watched.loading |= found.state == ResultState::Loading;
    if (found.state == ResultState::Error) watched.error = found.error;
    if (!found) return watched;
    const bool first = watched.position < 0;
    if (!first && !found->lost) continue;
    watched.position = found->position;
    watched.note =
        found->num_candidates == 0 ? "its first key; none of the span is up for choice here"
        : found->num_lost == 1     ? fmt::format("the only one that {} lost here", letter_of(slot))
        : found->lost ? fmt::format("the most attended of the {} keys that {} lost here",
                                    found->num_lost, letter_of(slot))
                      : "the most attended of its keys, which are all kept here";
    if (found->lost && !found->missed)
      watched.note += "; choosing by true mass would not keep it either";
    if (found->lost) return watched;
  }
  return watched;
}

}  // namespace kvloupe::state
