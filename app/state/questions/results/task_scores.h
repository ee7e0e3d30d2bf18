// The view task_scores: the mean score of each method on each task, length, depth or budget, with its interval, and what
// another method answers of the same samples.
#pragma once

#include "app/state/questions/results/of_results.h"

#include <cstddef>
#include <string>
#include <vector>

namespace kvloupe::state {

// Columns across budgets of those without a number of keys: dense, and methods that keep as much as they see fit.
inline constexpr const char* kAllKeys = "none";
inline constexpr const char* kOwnBudget = "own";

struct TaskScoresQuestion : OfResults {
  static constexpr const char* kName = "task scores";
  std::string across = {};  // what has a column: "task", "length", "depth" or "budget"

  struct Answer {
    analysis::ScoreTable scores;
    std::vector<std::string> row_labels, column_labels;  // as people read them
    std::string finding;                                 // one sentence
    std::ptrdiff_t worst = -1;    // the cell in scores that it names; -1: none
    std::ptrdiff_t left_out = 0;  // samples of what is shown that have no column
  };

  std::string key() const { return OfResults::key(across); }
  std::string title() const { return "Averaging the samples"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// For results that open: a column for each task, or, where there is one task, for each budget or each length.
ResultsSight scores_across_more_than_one(const ReadResults& results);

TaskScoresQuestion task_scores_question(const Workspace& workspace);

}  // namespace kvloupe::state
