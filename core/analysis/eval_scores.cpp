#include "core/analysis/eval_scores.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace kvloupe::analysis {
namespace {

using trace::Results;
using trace::ResultSample;

constexpr double kZ = 1.959963984540054;  // of 95 %

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The digits at `at` without leading zeros; `at` goes behind them.
std::string_view number_at(std::string_view text, std::size_t& at) {
  while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

class Order {
 public:
  explicit Order(const std::vector<std::string>& first) : first_(first) {}

  bool operator()(const std::string& a, const std::string& b) const {
    const auto place_a = std::find(first_.begin(), first_.end(), a),
               place_b = std::find(first_.begin(), first_.end(), b);
    return place_a != place_b ? place_a < place_b : reads_before(a, b);
  }

 private:
  const std::vector<std::string>& first_;
};

using ScoreOfSample = std::map<std::string_view, double>;

ScoreOfSample scores_of(const Results& results, const std::string& method) {
  ScoreOfSample scores;
  for (const ResultSample& sample : results.samples)
    if (sample.method == method && !std::isnan(sample.score))
      scores.emplace(sample.sample, sample.score);
  return scores;
}

// Those with a score that is no share of 1, or of which less is better: Wilson's interval says nothing of them.
std::set<std::string_view> tasks_of_other_scores(const Results& results) {
  std::set<std::string_view> tasks;
  for (const ResultSample& sample : results.samples)
    if (!sample.higher_is_better || sample.score < 0 || sample.score > 1) tasks.insert(sample.task);
  return tasks;
}

void add_means(const Results& results, const std::set<std::string_view>& other_scores,
               ScoreCell& cell) {
  double sum = 0, kept = 0;
  std::int64_t with_kept = 0;
  bool is_share = true;
  for (const std::int32_t index : cell.samples) {
    const ResultSample& sample = results.samples[static_cast<std::size_t>(index)];
    if (!sample.refused.empty()) ++cell.refused;
    if (!std::isnan(sample.kept)) {
      kept += sample.kept;
      ++with_kept;
    }
    if (std::isnan(sample.score)) continue;
    ++cell.scored;
    sum += sample.score;
    is_share &= !other_scores.contains(sample.task);
  }
  if (with_kept > 0) cell.kept = kept / static_cast<double>(with_kept);
  if (cell.scored == 0) return;
  cell.mean = sum / static_cast<double>(cell.scored);
  if (is_share) std::tie(cell.low, cell.high) = wilson_interval(cell.mean, cell.scored);
}

void add_pairs(const Results& results, const std::string& against, const ScoreOfSample& theirs,
               ScoreCell& cell) {
  double sum = 0, sum_of_theirs = 0, gains = 0;
  for (const std::int32_t index : cell.samples) {
    const ResultSample& sample = results.samples[static_cast<std::size_t>(index)];
    const auto other = theirs.find(sample.sample);
    if (sample.method == against || std::isnan(sample.score) || other == theirs.end()) continue;
    ++cell.paired;
    sum += sample.score;
    sum_of_theirs += other->second;
    const double gain = (sample.score - other->second) * (sample.higher_is_better ? 1 : -1);
    gains += gain;
    cell.better += gain > 0 ? 1 : 0;
    cell.worse += gain < 0 ? 1 : 0;
  }
  if (cell.paired == 0) return;
  const auto count = static_cast<double>(cell.paired);
  cell.paired_mean = sum / count;
  cell.their_mean = sum_of_theirs / count;
  if (sum_of_theirs > 0) cell.relative = sum / sum_of_theirs;
  cell.difference = (sum - sum_of_theirs) / count;
  cell.loss = -gains / count;
  cell.p = sign_test(cell.better, cell.worse);
}

}  // namespace

std::pair<double, double> wilson_interval(double mean, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double by = 1 + kZ * kZ / n;
  const double centre = (mean + kZ * kZ / (2 * n)) / by;
  const double reach = kZ / by * std::sqrt(mean * (1 - mean) / n + kZ * kZ / (4 * n * n));
  return {std::max(0.0, centre - reach), std::min(1.0, centre + reach)};
}

double sign_test(std::int64_t better, std::int64_t worse) {
  const std::int64_t count = better + worse;
  if (count == 0) return ScoreCell::kUnknown;
  const auto n = static_cast<double>(count);
  double sum = 0;
  for (std::int64_t k = 0; k <= std::min(better, worse); ++k) {
    const auto i = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) -
                    n * std::log(2.0));
  }
  return std::min(1.0, 2 * sum);
}

bool reads_before(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view left = number_at(a, i), right = number_at(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // numbers that are written differently
}

ScoreTable score_table(const Results& results, const NameOfSample& row, const NameOfSample& column,
                       const std::string& against, const std::vector<std::string>& first) {
  std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> groups;
  std::set<std::string, Order> rows{Order(first)}, columns{Order(first)};
  for (std::size_t i = 0; i < results.samples.size(); ++i) {
    std::pair<std::string, std::string> names{row(results.samples[i]), column(results.samples[i])};
    if (names.first.empty() || names.second.empty()) continue;
    rows.insert(names.first);
    columns.insert(names.second);
    groups[std::move(names)].push_back(static_cast<std::int32_t>(i));
  }
  ScoreTable table{{rows.begin(), rows.end()}, {columns.begin(), columns.end()}, {}};
  if (table.rows.size() > kMostScoreCells / std::max<std::size_t>(1, table.columns.size()))
    throw input_error("the scores cannot be laid out",
                      fmt::format("they would have {} rows and {} columns", table.rows.size(),
                                  table.columns.size()),
                      "show fewer methods, or merge results of fewer tasks");
  const ScoreOfSample theirs = scores_of(results, against);
  const std::set<std::string_view> other_scores = tasks_of_other_scores(results);
  for (const std::string& of_row : table.rows)
    for (const std::string& of_column : table.columns) {
      ScoreCell& cell = table.cells.emplace_back();
      const auto found = groups.find({of_row, of_column});
      if (found != groups.end()) cell.samples = found->second;
      add_means(results, other_scores, cell);
      add_pairs(results, against, theirs, cell);
    }
  return table;
}

}  // namespace kvloupe::analysis
