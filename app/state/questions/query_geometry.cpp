#include "app/state/questions/query_geometry.h"

#include "app/state/questions/attention_map.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::state {
namespace {

constexpr int kComponents = 2;
constexpr int kMaxKeys = 1500;

// What the picture needs of all queries and points.
void measure(QueryGeometryQuestion::Answer& answer) {
  const analysis::QueryGeometry& g = answer.geometry;
  answer.num_chosen = std::count(g.chosen.begin(), g.chosen.end(), 1);
  if (!g.relevance.empty()) {
    const auto [least, most] = std::minmax_element(g.relevance.begin(), g.relevance.end());
    answer.least_relevance = *least;
    answer.most_relevance = std::max(double{*most}, answer.least_relevance + 1e-6);
    answer.most_attention = *std::max_element(g.max_attention.begin(), g.max_attention.end());
  }
  answer.left = answer.right = g.mean_query[0];
  answer.bottom = answer.top = g.mean_query[1];
  for (const auto* points : {&g.queries, &g.keys})
    for (const auto& point : *points) {
      answer.left = std::min(answer.left, double{point[0]});
      answer.right = std::max(answer.right, double{point[0]});
      answer.bottom = std::min(answer.bottom, double{point[1]});
      answer.top = std::max(answer.top, double{point[1]});
    }
}

QueryGeometryQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

std::string problem(Workspace& workspace) {
  const std::string problem = problem_of(workspace.ask(question_of(workspace)));
  if (!problem.empty()) return problem;
  // A picture waits for the queries that want the key; where none sees it there is nothing to wait for.
  const auto wanted = workspace.ask(KeyWantedQuestion{workspace.place()});
  return wanted.state == ResultState::Loading ? problem_of(wanted) : std::string();
}

Table table(Workspace& workspace) {
  Table table{{"kind", "position", "pc1", "pc2", "s_q", "max_attention", "chosen", "question",
               "attention_on_keys"},
              {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const analysis::QueryGeometry& g = result->geometry;
  const Place& place = result.question.place;
  const auto wanted = workspace.ask(KeyWantedQuestion{place});
  const auto add = [&](const char* kind, const Cell& position, const std::array<float, 3>& p,
                       const std::vector<Cell>& of_query) {
    table.rows.push_back({kind, position, p[0], p[1]});
    table.rows.back().insert(table.rows.back().end(), of_query.begin(), of_query.end());
  };
  const std::vector<Cell> of_none(5);
  for (std::size_t i = 0; i < g.queries.size(); ++i) {
    const std::int32_t position = place.chunk_info().begin + static_cast<std::int32_t>(i);
    add("query", position, g.queries[i],
        {g.relevance[i], g.max_attention[i], result->is_chosen(i), in_question(place, position),
         wanted ? Cell(wanted->attention[i]) : Cell()});
  }
  for (std::size_t i = 0; i < g.keys.size(); ++i)
    add("key", g.key_positions[i], g.keys[i], of_none);
  add("mean_query", {}, g.mean_query, of_none);
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return {};
  std::vector<float> values;
  for (const auto& query : result->geometry.queries)
    values.insert(values.end(), query.begin(), query.begin() + kComponents);
  return array_of("<f4", {static_cast<std::int64_t>(result->num_queries()), kComponents}, values);
}

}  // namespace

QueryGeometryQuestion::Answer QueryGeometryQuestion::work(Steps& steps) const {
  Answer answer;
  answer.geometry =
      engine().query_geometry(*place.trace->session, place.layer, place.chunk, place.q_head,
                              kComponents, method.spec, kMaxKeys, steps.context);
  if (method.known()) answer.chosen_by = method.id();
  measure(answer);
  return answer;
}

std::uint64_t QueryGeometryQuestion::bytes(const Answer& answer) {
  const analysis::QueryGeometry& g = answer.geometry;
  return g.queries.size() * (sizeof(g.queries[0]) + 9) +
         g.keys.size() * (sizeof(g.keys[0]) + sizeof(g.key_positions[0])) +
         (g.pca.axes.size() + g.pca.mean.size()) * sizeof(double);
}

std::string KeyWantedQuestion::key() const {
  return fmt::format("{}|{}-{}", place.cell_key(), place.key_begin, place.key_end);
}

std::string KeyWantedQuestion::obstacle() const {
  if (place.empty()) return "Open a trace";
  if (!place.has_keys()) return "Choose a key";
  return place.key_begin < place.chunk_info().end() ? "" : "The key comes after the chunk";
}

KeyWantedQuestion::Answer KeyWantedQuestion::work(Steps& steps) const {
  const auto rows = steps.need(AttentionRowsQuestion{place});
  const std::int64_t end = std::min<std::int64_t>(place.key_end, rows->cols);
  Answer answer;
  for (std::int64_t r = 0; r < rows->rows; ++r) {
    float sum = 0;
    for (std::int64_t c = place.key_begin; c < end; ++c)
      if (!std::isnan(rows->at(r, c))) sum += rows->at(r, c);
    if (sum > answer.most) {
      answer.most = sum;
      answer.most_of = answer.attention.size();
    }
    answer.attention.push_back(sum);
  }
  return answer;
}

bool in_question(const Place& place, std::int32_t position) {
  const auto& spans = place.info().spans;
  return std::any_of(spans.begin(), spans.end(), [&](const trace::TokenSpan& span) {
    return span.name == "question" && position >= span.begin && position < span.end;
  });
}

bool asks_question(const Place& place) {
  const trace::ChunkInfo& chunk = place.chunk_info();
  for (std::int32_t position = chunk.begin; position < chunk.end(); ++position)
    if (in_question(place, position)) return true;
  return false;
}

ViewInfo query_geometry_view() {
  ViewInfo view;
  view.id = "query_geometry";
  view.title = "Query geometry";
  view.summary = "queries and keys in two principal components, those ringed that the method asked";
  view.metrics = "Queries, keys and heads";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "query", "key"};
  view.problem = problem;
  view.table = table;
  view.array = array;
  return view;
}

}  // namespace kvloupe::state
