#include "app/state/questions/how_it_works/query_relevance.h"

#include "app/state/view.h"
#include "app/state/workspace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kViewId = "query_relevance";

QueryRelevanceQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

std::string problem(Workspace& workspace) {
  const std::string problem = problem_of(workspace.ask(question_of(workspace)));
  if (!problem.empty()) return problem;
  const auto wanted = workspace.ask(KeyWantedQuestion{workspace.place()});
  return wanted.state == ResultState::Loading ? problem_of(wanted) : std::string();
}

Table table(Workspace& workspace) {
  Table table{{"query", "token", "s_q", "max_attention", "chosen", "alpha", "beta", "bound",
               "slack", "question", "attention_on_keys"},
              {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const analysis::QueryGeometry& g = result->queries->geometry;
  const Place& place = result.question.place;
  const auto wanted = of_chosen_keys(workspace, place);
  for (std::size_t i = 0; i < g.relevance.size(); ++i) {
    const auto position = static_cast<std::size_t>(place.chunk_info().begin) + i;
    table.rows.push_back({position, Token{place.trace->token_label[position]}, g.relevance[i],
                          g.max_attention[i], result->queries->is_chosen(i), g.alpha[i], g.beta[i],
                          result->bound[i], result->bound[i] + g.relevance[i],
                          in_question(place, static_cast<std::int32_t>(position)),
                          wanted ? Cell(wanted->attention[i]) : Cell()});
  }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return {};
  const analysis::QueryGeometry& g = result->queries->geometry;
  std::vector<float> values;
  for (std::size_t i = 0; i < g.relevance.size(); ++i) {
    values.push_back(g.relevance[i]);
    values.push_back(g.max_attention[i]);
  }
  return array_of("<f4", {static_cast<std::int64_t>(g.relevance.size()), 2}, values);
}

}  // namespace

std::vector<MedianPoint> medians_along(const std::vector<float>& x, const std::vector<float>& y) {
  constexpr std::size_t kMostParts = 8, kLeastPoints = 5, kLeastParts = 3;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) order.push_back(i);
  const std::size_t parts = std::min(kMostParts, order.size() / kLeastPoints);
  if (parts < kLeastParts) return {};
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return x[i]; });
  const auto median_of = [](std::vector<float> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? double{values[middle]}
                                  : (double{values[middle - 1]} + values[middle]) / 2;
  };
  std::vector<MedianPoint> medians;
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<float> own_x, own_y;
    for (std::size_t i = part * order.size() / parts; i < (part + 1) * order.size() / parts; ++i) {
      own_x.push_back(x[order[i]]);
      own_y.push_back(y[order[i]]);
    }
    const std::size_t count = own_x.size();
    medians.push_back({median_of(std::move(own_x)), median_of(std::move(own_y)), count});
  }
  return medians;
}

QueryRelevanceQuestion::Answer QueryRelevanceQuestion::work(Steps& steps) const {
  Answer answer;
  answer.queries = steps.need(QueryGeometryQuestion{place, method});
  const analysis::QueryGeometry& g = answer.queries->geometry;
  answer.medians = medians_along(g.relevance, g.max_attention);
  answer.least_slack = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < g.alpha.size(); ++i) {
    const double bound = analysis::theorem_bound(g.alpha[i], g.beta[i]);
    answer.bound.push_back(static_cast<float>(bound));
    if (std::isnan(bound)) continue;
    answer.num_premise += g.alpha[i] < 0 && g.beta[i] > 0;
    answer.least_slack = std::min(answer.least_slack, bound + double{g.relevance[i]});
  }
  return answer;
}

std::uint64_t QueryRelevanceQuestion::bytes(const Answer& answer) {
  return sizeof(answer) + QueryGeometryQuestion::bytes(*answer.queries) +
         bytes_in(answer.bound, answer.medians);
}

bool draws_theorem(const Workspace& workspace) {
  return workspace.option(kViewId, "plot") == "theorem";
}

ViewInfo query_relevance_view() {
  return ViewInfo{kViewId, "Query relevance",
                  "S_q of each query against the largest attention that it gives",
                  "Queries, keys and heads"}
      .follow(At::Cell | At::Query | At::Keys)
      .with({{"plot",
              {"attention", "theorem"},
              "the largest attention of each query against S_q, or its cosine with the mean "
              "query against what Theorem 1 of QuoKA allows"}})
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
