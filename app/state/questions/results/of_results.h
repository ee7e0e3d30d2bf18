// What questions about an evaluation are asked of: the file, the methods shown, and the one that others are compared with.
#pragma once

#include "app/state/open_results.h"
#include "app/state/view.h"
#include "core/analysis/eval_scores.h"

#include <string>
#include <vector>

namespace kvloupe::state {

struct OfResults {
  static constexpr Lane kLane = Lane::TraceIo;  // it needs no engine
  ResultsPtr results;
  std::vector<std::string> methods;
  std::string against;

  template <typename... Added>
  std::string key(const Added&... added) const {
    std::string key = results ? results->key() : "none";
    for (const std::string& method : methods) key += "|" + method;
    key += "||" + against;
    ((key += "|", key += added), ...);
    return key;
  }
  std::string obstacle() const { return results ? "" : "Open results of an evaluation"; }
  bool shows(const trace::ResultSample& sample) const;
};

OfResults of_results(const Workspace& workspace);
// "18 samples", "1 sample".
std::string words_of_samples(std::int64_t count);
// "0.83", "1", "–": a score with as many digits as people compare.
std::string score_text(double score);
// "+0.25".
std::string difference_text(double difference);
// "p 0.004", "p below 0.001"; empty: unknown.
std::string p_text(double p);
std::string length_text(std::int64_t length);  // "2,048 tokens"

// The numbers of a cell, and their columns.
void add_score_columns(Table& table);
void add_scores(const analysis::ScoreCell& cell, const std::string& against,
                std::vector<Cell>& row);

}  // namespace kvloupe::state
