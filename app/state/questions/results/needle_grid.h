// The view needle_grid: which needles each method finds, by the length of the text and the depth at which they stand.
#pragma once

#include "app/state/questions/results/of_results.h"

#include <string>
#include <vector>

namespace kvloupe::state {

struct NeedleGridQuestion : OfResults {
  static constexpr const char* kName = "needle grid";

  // Of one task and method. Rows are lengths, columns depths; all grids of a file have the same.
  struct Grid {
    std::string task, method;
    analysis::ScoreTable scores;
  };
  struct Answer {
    std::vector<std::int64_t> lengths;  // ascending
    std::vector<double> depths;
    std::vector<Grid> grids;
    bool several_tasks = false;
    std::string finding;  // one sentence
  };

  std::string key() const { return OfResults::key(); }
  std::string title() const { return "Laying out the needles"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

NeedleGridQuestion needle_grid_question(const Workspace& workspace);
// "quoka 256", "kvloupe_niah, quoka 256".
std::string name_of(const NeedleGridQuestion& question, const NeedleGridQuestion::Answer& answer,
                    const NeedleGridQuestion::Grid& grid);

}  // namespace kvloupe::state
