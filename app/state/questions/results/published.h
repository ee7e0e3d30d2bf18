// What a paper prints of the methods and tasks of an evaluation, beside it: of other models.
#pragma once

#include "app/state/questions/results/of_results.h"
#include "core/analysis/published_scores.h"

#include <string>
#include <vector>

namespace kvloupe::state {

struct PublishedQuestion : OfResults {
  static constexpr const char* kName = "published";
  std::string paper = {};  // its id; empty: none
  struct Answer {
    // A row a model, method and budget, and a column a task and length; of too many of these a row a score.
    Table table;
    std::vector<std::string> doubts =
        {};                  // why a cell may be wrong, [rows][columns]; empty: it seems right
    std::string words = {};  // what the scores are of, or why there is none: a few sentences
  };

  std::string key() const { return OfResults::key(paper); }
  std::string title() const { return "Reading what the paper prints"; }
  std::string obstacle() const {
    return paper.empty() ? "No paper is chosen" : OfResults::obstacle();
  }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Of the results that are shown, by the option `published` of task_scores.
PublishedQuestion published_question(const Workspace& workspace);
// The choices of that option, and what people read.
std::vector<std::string> published_choices();
std::vector<std::string> published_labels();

}  // namespace kvloupe::state
