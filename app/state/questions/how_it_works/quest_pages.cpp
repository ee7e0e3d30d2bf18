#include "app/state/questions/how_it_works/quest_pages.h"

#include "app/state/questions/how_it_works/stand_in.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr MethodKind kOfPages{.id = "quest",
                              .others = "does not select pages",
                              .things = "pages",
                              .same_budget = true,
                              .has = [](const MethodChoice& method, const trace::TraceInfo&) {
                                return method.known() && method.spec->traits().granularity ==
                                                             trace::Granularity::Page;
                              }};

using analysis::PageReport;
using analysis::PageScore;
using analysis::PageStep;
using analysis::PageVerdict;
using Answer = QuestPagesQuestion::Answer;

constexpr std::array kDrawingOrder{PageVerdict::Neither, PageVerdict::Hit, PageVerdict::Waste,
                                   PageVerdict::Forced, PageVerdict::Miss};

std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(quest_pages_question(workspace));
  if (result && result->report.pages.empty()) return "there are no keys before this chunk";
  return problem_of(result);
}

Table table(Workspace& workspace) {
  Table table{{"kind", "chunk", "page", "begin", "end", "bound", "best_logit", "looseness",
               "verdict", "move", "taken", "new", "reselected", "jaccard"},
              {}};
  const auto result = workspace.ask(quest_pages_question(workspace));
  if (!result) return table;
  const PageReport& r = result->report;
  const bool chosen = !r.dense_reason;
  const Cell none;
  for (std::size_t i = 0; i < r.pages.size(); ++i) {
    const PageScore& page = r.pages[i];
    table.rows.push_back({"page", r.chunk, i, page.begin, page.end, page.bound, page.best,
                          page.looseness(), chosen ? Cell(analysis::name_of(page.verdict)) : none,
                          chosen && page.move ? Cell(analysis::name_of(*page.move)) : none,
                          chosen ? Cell(page.taken()) : none, none, none, none});
  }
  for (const PageStep& step : r.steps)
    table.rows.push_back({"step", step.chunk, none, step.span.begin, step.span.end(), none, none,
                          none, none, none, step.taken, step.fresh, step.reselected, step.jaccard});
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(quest_pages_question(workspace));
  if (!result) return {};
  std::vector<float> values;
  for (const PageScore& page : result->report.pages) {
    values.push_back(page.bound);
    values.push_back(page.best);
  }
  return array_of("<f4", {static_cast<std::int64_t>(result->report.pages.size()), 2}, values);
}

class Extent {
 public:
  void add(float value) {
    low_ = std::min(low_, static_cast<double>(value));
    high_ = std::max(high_, static_cast<double>(value));
  }
  bool empty() const { return low_ > high_; }
  double low() const { return low_; }
  double high() const { return high_; }
  Answer::Range range() const { return empty() ? Answer::Range{} : Answer::Range{low_, high_}; }

 private:
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

void add_ranges(Answer& answer) {
  Extent bounds, best, taken, left, wanted;
  for (const PageScore& page : answer.report.pages) {
    bounds.add(page.bound);
    best.add(page.best);
    if (page.verdict == PageVerdict::Forced) continue;
    (page.taken() ? taken : left).add(page.bound);
    if (page.verdict == PageVerdict::Hit || page.verdict == PageVerdict::Miss)
      wanted.add(page.best);
  }
  answer.bounds = bounds.range();
  answer.best = best.range();
  if (!taken.empty() && taken.low() >= left.high()) answer.bound_cut = taken.low();
  if (!wanted.empty()) answer.best_cut = wanted.low();
}

void add_order(Answer& answer) {
  const std::vector<PageScore>& pages = answer.report.pages;
  for (const PageVerdict verdict : kDrawingOrder)
    for (std::size_t i = 0; i < pages.size(); ++i)
      if (pages[i].verdict == verdict) answer.drawing_order.push_back(static_cast<std::int32_t>(i));
}

void add_steps(Answer& answer) {
  const std::vector<PageStep>& steps = answer.report.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].chunk == answer.report.chunk) answer.here = i;
  }
}

}  // namespace

QuestPagesQuestion::Answer QuestPagesQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  if (!place.info().has_queries(place.chunk)) throw trace::lacks_queries(place.info(), place.chunk);
  if (run->find(place.layer, place.chunk) == nullptr)
    throw input_error("the pages cannot be shown",
                      fmt::format("the run has nothing for chunk {}", place.chunk),
                      "choose another chunk or method");
  Answer answer;
  answer.report = engine().page_report(*place.trace->session, *method.spec, *run, place.layer,
                                       place.chunk, place.q_head, steps.context);
  answer.row_is_one_head = run->q_heads_per_row == 1;
  answer.mean_looseness = answer.report.mean_looseness();
  add_ranges(answer);
  add_order(answer);
  add_steps(answer);
  answer.facts = facts_of(place, method, *run);
  return answer;
}

std::uint64_t QuestPagesQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.report.pages.size() *
                                           (sizeof(PageScore) + sizeof(answer.drawing_order[0]));
  for (const PageStep& step : answer.report.steps) sum += sizeof(step) + step.moves.size();
  return sum;
}

QuestPagesQuestion quest_pages_question(const Workspace& workspace) {
  StandIn shown = stand_in_for(workspace, kOfPages);
  return {workspace.place(), std::move(shown.method), std::move(shown.why)};
}

ViewInfo quest_pages_view() {
  return ViewInfo{"quest_pages", "Quest pages",
                  "the bound of each page against its best key, and how the pages taken change",
                  "Queries, keys and heads"}
      .follow(At::Cell | At::Keys)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
