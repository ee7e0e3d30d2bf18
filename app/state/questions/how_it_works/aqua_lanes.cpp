#include "app/state/questions/how_it_works/aqua_lanes.h"

#include "app/state/other_trace.h"
#include "app/state/questions/how_it_works/stand_in.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvloupe::state {
namespace {

constexpr MethodKind kOfLanes{.id = "aqua",
                              .others = "drops keys, not lanes",
                              .things = "lanes",
                              .has = [](const MethodChoice& method, const trace::TraceInfo&) {
                                return method.known() && method.spec->traits().lanes.has_value();
                              }};

using analysis::BasisLoss;
using analysis::LaneChoice;
using analysis::LaneReport;
using Answer = AquaLanesQuestion::Answer;

// Everything that is drawn, exactly, one number a row.
class LaneTable {
 public:
  explicit LaneTable(const LaneReport& report) : r_(report) {}
  void add_use() {
    for (int head = 0; head < r_.num_q_heads; ++head)
      for (int lane = 0; lane < r_.head_dim; ++lane)
        add("lane_use", r_.method, r_.basis, "q", head, "", lane, r_.use_of(head, lane));
  }
  void add_score_errors() {
    for (int head = 0; head < r_.num_q_heads; ++head) {
      const auto i = static_cast<std::size_t>(head);
      add("score_error", r_.method, r_.basis, "", head, "", r_.kept_lanes, r_.score_error[i]);
      add("score_error", r_.twin, r_.basis, "", head, "", r_.kept_lanes, r_.twin_score_error[i]);
    }
  }
  void add_losses() {
    for (const BasisLoss& basis : r_.bases) {
      if (!basis.note) continue;
      for (const analysis::LossCurve& curve : basis.curves)
        for (std::size_t i = 0; i < r_.kept.size(); ++i)
          add(curve.choice == LaneChoice::QueryLanes ? "key_loss_under_query_lanes"
                                                     : "information_retention_loss",
              "", *basis.note, curve.of_keys ? "k" : "q", curve.q_head,
              analysis::name_of(curve.choice), r_.kept[i], curve.loss[i]);
    }
  }
  void add_beside(const Answer& answer) {
    for (std::size_t basis = 0; basis < answer.losses_beside.size(); ++basis)
      for (const bool of_keys : {true, false}) {
        const Answer::Losses& losses = answer.losses_beside[basis];
        for (const Answer::Line& line : of_keys ? losses.of_keys : losses.of_queries)
          for (std::size_t i = 0; i < r_.kept.size(); ++i)
            add("loss_in_" + answer.name_beside, "", *r_.bases[basis].note, of_keys ? "k" : "q", -1,
                analysis::name_of(line.choice), r_.kept[i], line.loss[i]);
      }
  }
  void add_overlaps() {
    for (const analysis::LaneOverlap& overlap : r_.overlaps)
      add("overlap_with_leading", r_.method, r_.basis, overlap.of_keys ? "k" : "q", -1,
          fmt::format("{}, {} leading", overlap.rotated ? "rotated" : "stored", overlap.leading),
          overlap.largest, overlap.mean());
  }
  void add_costs(const analysis::BreakEven& even, const analysis::LaneMemory& memory) {
    const auto length = [](const std::optional<double>& keys) {
      return keys.value_or(std::numeric_limits<double>::infinity());
    };
    add_cost("break_even_one_projection", r_.kept_lanes, length(even.one_projection));
    add_cost("break_even_two_projections", r_.kept_lanes, length(even.two_projections));
    add_cost("memory_saved_of_keys", r_.stored_lanes, memory.of_keys);
    add_cost("memory_saved_of_kv_cache", r_.stored_lanes, memory.of_kv_cache);
    if (r_.slice_ratio > 0) add_cost("effective_ratio", r_.kept_lanes, r_.effective_ratio);
  }
  std::vector<std::vector<Cell>> take_rows() { return std::move(rows_); }

 private:
  void add_cost(const std::string& quantity, int lanes, double value) {
    add(quantity, r_.method, r_.basis, "", -1, "", lanes, value);
  }
  void add(const std::string& quantity, const std::string& method, const replay::BasisNote& basis,
           const std::string& vectors, int q_head, const std::string& choice, int lanes,
           double value) {
    rows_.push_back({quantity, MethodText{method}, basis.source, basis.leakage, vectors,
                     q_head >= 0 ? Cell(q_head) : Cell(), choice, lanes, value});
  }

  const LaneReport& r_;
  std::vector<std::vector<Cell>> rows_;
};

Table table(Workspace& workspace) {
  Table table{
      {"quantity", "method", "basis", "leakage", "vectors", "q_head", "choice", "lanes", "value"},
      {}};
  const auto result = workspace.ask(aqua_lanes_question(workspace));
  if (!result) return table;
  LaneTable numbers(result->report);
  numbers.add_use();
  numbers.add_score_errors();
  numbers.add_losses();
  numbers.add_beside(*result);
  numbers.add_overlaps();
  numbers.add_costs(result->break_even, result->memory);
  table.rows = numbers.take_rows();
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(aqua_lanes_question(workspace));
  if (!result) return {};
  const LaneReport& report = result->report;
  return array_of("<i4", {report.num_q_heads, report.head_dim}, report.counts);
}

Answer::Losses losses_in(const LaneReport& report, const BasisLoss& basis) {
  Answer::Losses losses;
  if (!basis.note) return losses;
  for (const LaneChoice choice : {LaneChoice::Magnitude, LaneChoice::Leading}) {
    if (const auto* curve = report.find(basis, true, choice, -1))
      losses.of_keys.push_back({choice, curve->loss});
    losses.of_queries.push_back({choice, report.group_mean(basis, false, choice)});
  }
  losses.of_keys.push_back(
      {LaneChoice::QueryLanes, report.group_mean(basis, true, LaneChoice::QueryLanes)});
  return losses;
}

double most_of(const std::vector<Answer::Line>& lines, double most) {
  for (const Answer::Line& line : lines)
    for (const double loss : line.loss) most = std::max(most, loss);
  return most;
}

// In the basis of the method itself, where the matched one is fitted anyway.
std::optional<Answer::KeyLoss> key_loss_of(const LaneReport& report) {
  const BasisLoss* own = &report.bases.front();
  for (const BasisLoss& basis : report.bases)
    if (basis.note && basis.note->hash == report.basis.hash &&
        basis.note->source == report.basis.source) {
      own = &basis;
      break;
    }
  const auto* magnitude = report.find(*own, true, LaneChoice::Magnitude, -1);
  const auto* leading = report.find(*own, true, LaneChoice::Leading, -1);
  if (magnitude == nullptr || leading == nullptr) return std::nullopt;
  const std::size_t at = report.kept_index();
  return Answer::KeyLoss{magnitude->loss[at], leading->loss[at],
                         report.group_mean(*own, true, LaneChoice::QueryLanes)[at]};
}

std::string note_of(const LaneReport& report, const MethodFacts& facts) {
  std::string note;
  if (facts.evicts)
    note = fmt::format(
        "{} also evicts keys, which changes no query's lanes: the errors here are over all keys, "
        "as if none had been evicted. The KV map shows those kept. ",
        facts.choice.id());
  if (report.basis_missing.empty()) return note;
  const bool said_beside_curves =
      std::any_of(report.bases.begin(), report.bases.end(),
                  [&](const BasisLoss& basis) { return basis.missing == report.basis_missing; });
  return note + (said_beside_curves
                     ? "Shown in a basis fitted on this trace, for want of a calibrated one."
                     : report.basis_missing);
}

int last_prompt_chunk(const trace::TraceInfo& info) {
  int last = 0;
  for (const int chunk : info.chunks_with_queries())
    if (info.chunks[static_cast<std::size_t>(chunk)].phase == trace::Phase::Prefill) last = chunk;
  return last;
}

void add_beside(const AquaLanesQuestion& question, Steps& steps, Answer& answer) {
  const trace::TraceInfo& info = question.beside->info();
  if (const std::string why = why_not_beside(*question.beside, question.place); !why.empty())
    throw input_error(fmt::format("{} cannot be drawn beside", question.beside->name), why,
                      "open another trace of the same model and layers");
  const LaneReport other =
      engine().lane_report(*question.beside->session, *question.method.spec, question.place.layer,
                           last_prompt_chunk(info), question.place.kv_head(), steps.context);
  for (const BasisLoss& basis : other.bases)
    answer.losses_beside.push_back(basis.matched ? Answer::Losses() : losses_in(other, basis));
  answer.name_beside = question.beside->name;
}

MethodFacts facts_in(const Place& place, const LaneReport& report) {
  const auto spec = selection::MethodSpec::parse(report.method).resolved(place.trace->shape());
  MethodFacts facts = facts_of(place, MethodChoice{report.method, -1, spec});
  facts.basis = report.basis;
  facts.leakage = report.basis.leakage;
  return facts;
}

}  // namespace

AquaLanesQuestion::Answer AquaLanesQuestion::work(Steps& steps) const {
  Answer answer;
  answer.report = engine().lane_report(*place.trace->session, *method.spec, place.layer,
                                       place.chunk, place.kv_head(), steps.context);
  const LaneReport& report = answer.report;
  answer.most_lost_of_keys = answer.most_lost_of_queries = answer.most_score_error = 1e-3;
  for (const BasisLoss& basis : report.bases) {
    const Answer::Losses& losses = answer.losses.emplace_back(losses_in(report, basis));
    answer.most_lost_of_keys = most_of(losses.of_keys, answer.most_lost_of_keys);
    answer.most_lost_of_queries = most_of(losses.of_queries, answer.most_lost_of_queries);
  }
  if (beside) add_beside(*this, steps, answer);
  for (const Answer::Losses& losses : answer.losses_beside) {
    answer.most_lost_of_keys = most_of(losses.of_keys, answer.most_lost_of_keys);
    answer.most_lost_of_queries = most_of(losses.of_queries, answer.most_lost_of_queries);
  }
  for (const auto* errors : {&report.score_error, &report.twin_score_error})
    for (const double error : *errors)
      answer.most_score_error = std::max(answer.most_score_error, error);
  answer.key_loss = key_loss_of(report);
  answer.break_even = analysis::break_even(report.head_dim, report.kept_lanes);
  answer.memory = analysis::lane_memory(report.head_dim, report.stored_lanes, report.slices_values);
  answer.facts = facts_in(place, report);
  answer.note = note_of(report, answer.facts);
  return answer;
}

std::uint64_t AquaLanesQuestion::bytes(const Answer& answer) {
  std::uint64_t numbers = answer.report.counts.size();
  for (const BasisLoss& basis : answer.report.bases)
    numbers += 2 * basis.curves.size() * answer.report.kept.size();
  for (const analysis::LaneOverlap& overlap : answer.report.overlaps)
    numbers += overlap.counts.size();
  return sizeof(answer) + numbers * sizeof(double);
}

AquaLanesQuestion aqua_lanes_question(const Workspace& workspace) {
  AquaLanesQuestion question{workspace.place(), {}, {}};
  if (workspace.option("aqua_lanes", "beside") == "other") question.beside = other_trace(workspace);
  StandIn shown = stand_in_for(workspace, kOfLanes);
  question.method = std::move(shown.method);
  question.method.run = -1;
  question.stand_in = std::move(shown.why);
  return question;
}

ViewInfo aqua_lanes_view() {
  return ViewInfo{"aqua_lanes", "AQUA lanes",
                  "which lanes of the dot product AQUA uses, and what cutting the others loses",
                  "Queries, keys and heads"}
      .follow(At::Cell)
      .with({{"plot",
              {"losses", "overlap"},
              "what cutting lanes loses, or how far the largest lanes of a vector are leading "
              "directions of the basis"},
             {"beside",
              {"none", "other"},
              "what the norm loses in another open trace (export: --other-trace), dashed"}})
      .draw(problem_with<aqua_lanes_question>, table, array);
}

}  // namespace kvloupe::state
