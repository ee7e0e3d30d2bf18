// The view quest_pages: what a page method bounds, takes and misses of one head's pages in one
// chunk, and how the pages taken change from step to step.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/page_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

struct QuestPagesQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "quest pages";
  std::string stand_in;  // why this is not the method chosen; empty: it is

  struct Answer {
    struct Range {
      double low = 0, high = 0;
    };
    analysis::PageReport report;
    bool row_is_one_head = false;  // else the query heads of a KV head share their pages
    double mean_looseness = 0;
    std::vector<std::int32_t> drawing_order;  // of report.pages: what must be seen comes last
    Range bounds, best;                       // of the pages; 0 where there are none
    std::optional<double> bound_cut;  // lowest bound that was taken; unset where sets were merged
    std::optional<double> best_cut;   // lowest logit that a perfect bound would have taken
    std::optional<std::size_t> here;  // the chunk's place among report.steps
    MethodFacts facts;

    const analysis::PageStep* step_here() const { return here ? &report.steps[*here] : nullptr; }
  };

  std::string title() const { return "Bounding the pages"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// For the current selection: the method shown, or one that selects pages in its place.
QuestPagesQuestion quest_pages_question(const Workspace& workspace);

}  // namespace kvloupe::state
