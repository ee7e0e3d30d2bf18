#include "app/state/questions/results/of_results.h"

#include "app/state/workspace.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::state {

bool OfResults::shows(const trace::ResultSample& sample) const {
  return std::find(methods.begin(), methods.end(), sample.method) != methods.end();
}

OfResults of_results(const Workspace& workspace) {
  const OpenResults& open = workspace.results;
  return {open.ready(), open.shown(), open.against()};
}

std::string words_of_samples(std::int64_t count) {
  return fmt::format("{} sample{}", format_count(count), count == 1 ? "" : "s");
}

std::string score_text(double score) {
  if (std::isnan(score)) return "\u2013";
  return score == std::floor(score) && std::abs(score) < 1e6 ? fmt::format("{:.0f}", score)
                                                             : fmt::format("{:.2f}", score);
}

std::string difference_text(double difference) {
  if (std::isnan(difference)) return "\u2013";
  return difference == 0 ? "0" : fmt::format("{:+.2f}", difference);
}

std::string p_text(double p) {
  if (std::isnan(p)) return "";
  if (p < 0.001) return "p below 0.001";
  return p < 0.1 ? fmt::format("p {:.3f}", p) : fmt::format("p {:.2f}", p);
}

std::string length_text(std::int64_t length) { return format_count(length) + " tokens"; }

void add_score_columns(Table& table) {
  for (const char* column : {"samples", "score", "low", "high", "refused", "kept", "of_against",
                             "against", "difference", "better", "worse", "p"})
    table.columns.emplace_back(column);
}

void add_scores(const analysis::ScoreCell& cell, const std::string& against,
                std::vector<Cell>& row) {
  const auto score = [&](double number) { return Cell::within(number, cell.low, cell.high); };
  row.insert(row.end(), {cell.scored, score(cell.mean), score(cell.low), score(cell.high),
                         cell.refused, cell.kept});
  if (cell.paired == 0)
    row.insert(row.end(), {std::nullopt, MethodText{against}, std::nullopt, std::nullopt,
                           std::nullopt, std::nullopt});
  else
    row.insert(row.end(), {cell.relative, MethodText{against}, cell.difference, cell.better,
                           cell.worse, cell.p});
}

}  // namespace kvloupe::state
