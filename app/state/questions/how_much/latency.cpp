#include "app/state/questions/how_much/latency.h"

#include "app/state/questions/how_it_ran/run.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

using measure::LatencyReport;

LatencyQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

// What captions say of the method is asked for first: nothing computes while it is timed.
std::string problem(Workspace& workspace) {
  const LatencyQuestion question = question_of(workspace);
  const auto facts = workspace.ask(FactsQuestion{question.place, question.method});
  if (facts.state == ResultState::Loading) return problem_of(facts);
  const auto result = workspace.ask(question);
  const bool not_begun = result.state == ResultState::Empty && result.note.empty();
  if (not_begun) workspace.answers.start(question);
  if (not_begun || result.state == ResultState::Loading) return "the measurement has not finished";
  return problem_of(result);
}

Table table(Workspace& workspace) {
  Table table{{"part", "median_ms", "q25_ms", "q75_ms", "samples", "device", "dtype", "past",
               "queries", "method", "leakage", "kind", "dense_reason", "speedup", "floor_ms"},
              {}};
  const LatencyQuestion question = question_of(workspace);
  const auto result = workspace.ask(question);
  if (!result) return table;
  const auto speedup = result->speedup();
  const bool leakage = known_facts(workspace, question.place, question.method)->leakage;
  for (const LatencyPart& part : parts_of(*result))
    table.rows.push_back(
        {part.name, part.stats.median_ms, part.stats.q25_ms, part.stats.q75_ms, part.stats.samples,
         result->device, result->dtype, result->past_len, result->chunk_len,
         MethodText{result->method}, leakage, result->executed ? "executed" : "simulated",
         result->dense_reason ? Cell(trace::name_of(*result->dense_reason)) : Cell(), speedup,
         result->floor_ms});
  return table;
}

// Its quartiles lie close.
bool is_steady(const measure::LatencyStats& stats) {
  return stats.q75_ms - stats.q25_ms <= 0.1 * stats.median_ms;
}

}  // namespace

std::vector<LatencyPart> parts_of(const LatencyReport& report) {
  return {{"select", report.select},
          {measure::gather_name(report.reads), report.gather},
          {"attend", report.attend},
          {"total", report.total},
          {"dense (" + report.dense_variant + ")", report.dense}};
}

std::string verdict_of(const LatencyReport& report) {
  if (report.dense_reason) {
    const std::string why = *report.dense_reason == trace::DenseReason::EmptyPast ? "no past keys"
                            : *report.dense_reason == trace::DenseReason::FitsBudget
                                ? "all keys fit the budget"
                                : "by the method's rule";
    return "Dense here, " + why + ": nothing to compare";
  }
  const auto speedup = report.speedup();
  if (!report.executed) return "Simulated: " + report.why_simulated() + "; no speed to compare";
  if (!speedup) return "";
  // With both times: another run had its own dense attention, on a machine as busy as it was then.
  const std::string times =
      fmt::format("{:.3g} ms, dense {:.3g} ms", report.total.median_ms, report.dense.median_ms);
  const double factor = *speedup >= 1 ? *speedup : 1 / *speedup;
  const char* way = *speedup >= 1 ? "faster" : "slower";
  // No more digits than the quartiles bear.
  if (is_steady(report.total) && is_steady(report.dense))
    return fmt::format("{}: {:.2f} x {}", times, factor, way);
  return fmt::format("{}: about {:.1f} x {}", times, factor, way);
}

std::string LatencyQuestion::title() const {
  return fmt::format("Timing {} in layer {}, chunk {}", method.id(), place.layer, place.chunk);
}

std::string LatencyQuestion::obstacle() const {
  const std::string obstacle = OfMethodAnew::obstacle();
  if (!obstacle.empty() || method.known()) return obstacle;
  return unknown_method(method, "it cannot be timed");
}

LatencyQuestion::Answer LatencyQuestion::work(Steps& steps) const {
  return engine().measure_latency(*place.trace->session, *method.spec, place.layer, place.chunk,
                                  measure::LatencyOptions{.device = place.device}, steps.context,
                                  [&](const LatencyReport& report) { steps.show(report); });
}

ViewInfo latency_view() {
  return ViewInfo{
      "latency", "Latency",
      "select, gather (or block tables) and attend against dense attention, measured live", "Time"}
      .follow(At::Layer | At::Chunk)
      .draw(problem, table);
}

}  // namespace kvloupe::state
