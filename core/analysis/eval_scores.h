// What an evaluation says: means of samples with intervals, beside another method's on the same samples. The formulas are in
// docs/metrics.md, "Results of an evaluation". Plain functions of what core/trace/results read.
#pragma once

#include "core/trace/results/results_file.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::analysis {

// Of a share: the Wilson interval for 95 %. `mean` of `count` scores, each from 0 to 1.
std::pair<double, double> wilson_interval(double mean, std::int64_t count);
// Two-sided p of the exact sign test: as many better and worse by chance, or further apart. NaN for none.
double sign_test(std::int64_t better, std::int64_t worse);

// Texts in the order in which people list them: numbers in them by their size.
bool reads_before(const std::string& a, const std::string& b);

// Samples of one row and column.
struct ScoreCell {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::vector<std::int32_t> samples;     // indices into Results::samples
  std::int64_t scored = 0, refused = 0;  // those with a score; those not answered
  double mean = kUnknown;                // of the scores
  // Of the mean; unknown where a score of the samples' tasks is no share of 1, or a loss.
  double low = kUnknown, high = kUnknown;
  double kept = kUnknown;  // keys that a row kept, mean
  // Beside the method `against`, on the samples of which both have a score.
  std::int64_t paired = 0, better = 0, worse = 0;
  double paired_mean = kUnknown, their_mean = kUnknown;  // of the two on these
  double relative = kUnknown;                            // their ratio
  double difference = kUnknown;                          // paired_mean less their_mean
  double loss =
      kUnknown;         // how much worse: the difference the other way round, unless less is better
  double p = kUnknown;  // sign_test(better, worse)
};

struct ScoreTable {
  std::vector<std::string> rows, columns;
  std::vector<ScoreCell> cells;  // by row, then column

  const ScoreCell& at(std::size_t row, std::size_t column) const {
    return cells[row * columns.size() + column];
  }
};

// More than anybody can look at. A hostile file would ask for them all.
inline constexpr std::size_t kMostScoreCells = 40'000;

using NameOfSample = std::function<std::string(const trace::ResultSample&)>;
// What a sample is named "" by is in no cell. Rows and columns stand as reads_before() has them, but for those that
// `first` lists, which come before the others. Throws Error{Input} for more than kMostScoreCells.
ScoreTable score_table(const trace::Results& results, const NameOfSample& row,
                       const NameOfSample& column, const std::string& against,
                       const std::vector<std::string>& first);

}  // namespace kvloupe::analysis
