#include "app/state/questions/query_relevance.h"

#include "app/state/view.h"
#include "app/state/workspace.h"

#include <numeric>

namespace kvloupe::state {
namespace {

QueryRelevanceQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

std::string problem(Workspace& workspace) {
  return problem_of(workspace.ask(question_of(workspace)));
}

Table table(Workspace& workspace) {
  Table table{{"query", "token", "s_q", "max_attention", "chosen"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const analysis::QueryGeometry& g = result->queries->geometry;
  const Place& place = result.question.place;
  for (std::size_t i = 0; i < g.relevance.size(); ++i) {
    const auto position = static_cast<std::size_t>(place.chunk_info().begin) + i;
    table.rows.push_back({cell(static_cast<std::int64_t>(position)),
                          place.trace->token_label[position], cell(double{g.relevance[i]}),
                          cell(double{g.max_attention[i]}),
                          result->queries->is_chosen(i) ? "1" : "0"});
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

std::optional<Line> least_squares(const std::vector<float>& x, const std::vector<float>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  if (xx <= 0) return std::nullopt;
  return Line{xy / xx, mean_y - xy / xx * mean_x};
}

QueryRelevanceQuestion::Answer QueryRelevanceQuestion::work(Steps& steps) const {
  Answer answer;
  answer.queries = steps.need(QueryGeometryQuestion{place, method});
  answer.line =
      least_squares(answer.queries->geometry.relevance, answer.queries->geometry.max_attention);
  return answer;
}

std::uint64_t QueryRelevanceQuestion::bytes(const Answer& answer) {
  return sizeof(answer) + QueryGeometryQuestion::bytes(*answer.queries);
}

ViewInfo query_relevance_view() {
  ViewInfo view;
  view.id = "query_relevance";
  view.title = "Query relevance";
  view.summary = "S_q of each query against the largest attention that it gives";
  view.metrics = "Queries, keys and heads";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "query"};
  view.problem = problem;
  view.table = table;
  view.array = array;
  return view;
}

}  // namespace kvloupe::state
