#include "app/state/questions/how_it_works/query_geometry.h"

#include "app/state/labels.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/shown_methods.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kViewId = "query_geometry";

std::string problem(Workspace& workspace) {
  const GeometryForm form = geometry_form(workspace);
  const std::string first = first_problem(all_drawn(workspace, kViewId), [&](const Drawn& one) {
    return problem_of(workspace.ask(GeometryQuestion{one.place, one.method, form}));
  });
  if (!first.empty()) return first;
  // A picture waits for the queries that want the key; where none sees it there is nothing to wait for.
  const auto wanted = workspace.ask(KeyWantedQuestion{workspace.place()});
  return wanted.state == ResultState::Loading ? problem_of(wanted) : std::string();
}

}  // namespace

Result<KeyWantedQuestion> of_chosen_keys(Workspace& workspace, const Place& place) {
  return place.has_keys() ? workspace.ask(KeyWantedQuestion{place}) : Result<KeyWantedQuestion>();
}

namespace {

// The columns that the form adds stand behind those of the default, but for a point's own.
Table empty_table(const GeometryForm& form) {
  Table table{{"kind", "position"}, {}};
  if (form.all_chunks) table.columns.emplace_back("chunk");
  for (const char* component : {"pc1", "pc2", "pc3"})
    if (table.columns.size() < 2U + form.all_chunks + form.dimensions)
      table.columns.emplace_back(component);
  for (const char* of_query : {"s_q", "max_attention", "chosen", "question", "attention_on_keys"})
    table.columns.emplace_back(of_query);
  if (form.color == GeometryForm::Color::Fate) table.columns.emplace_back("fate");
  if (form.color == GeometryForm::Color::Attention)
    table.columns.emplace_back("attention_received");
  return table;
}

// The rows of the table.
class Rows {
 public:
  Rows(Workspace& workspace, const Result<GeometryQuestion>& result, Table& table)
      : result_(result),
        place_(result.question.place),
        form_(result.question.form),
        wanted_(of_chosen_keys(workspace, place_)),
        table_(table) {}

  void add_queries() {
    const analysis::HeadPoints& points = *result_->points;
    for (std::size_t i = 0; i < points.queries.size(); ++i) {
      const std::int32_t position = points.query_positions[i];
      const auto row = result_->row_of(place_, i);
      const Cell none;
      add("query", position, place_.info().chunk_of_token(position), points.queries[i],
          {points.relevance[i], max_attention(i, row),
           row ? Cell(result_->queries->is_chosen(*row)) : none, in_question(place_, position),
           row && wanted_ ? Cell(wanted_->attention[*row]) : none},
          {});
    }
  }
  void add_keys() {
    const analysis::HeadPoints& points = *result_->points;
    for (std::size_t i = 0; i < points.keys.size(); ++i) {
      const std::int32_t position = points.key_positions[i];
      Cell own;
      if (!result_->fates.empty())
        own = label_of(result_->fates[static_cast<std::size_t>(position)]);
      if (result_->attention) own = result_->received(i);
      add("key", position, place_.info().chunk_of_token(position), points.keys[i],
          std::vector<Cell>(5), own);
    }
  }
  void add_means() {
    int chunk = result_->points->first_chunk;
    for (const auto& mean : result_->points->mean_queries)
      add("mean_query", {}, chunk++, mean, std::vector<Cell>(5), {});
  }

 private:
  Cell max_attention(std::size_t query, std::optional<std::size_t> row) const {
    if (row) return result_->queries->geometry.max_attention[*row];
    return result_->attention ? Cell(result_->given(query)) : Cell();
  }
  // `of_key` is the last column where there is one.
  void add(const char* kind, const Cell& position, int chunk, const std::array<float, 3>& point,
           const std::vector<Cell>& of_query, const Cell& of_key) {
    std::vector<Cell> row{kind, position};
    if (form_.all_chunks) row.emplace_back(chunk);
    row.insert(row.end(), point.begin(), point.begin() + form_.dimensions);
    row.insert(row.end(), of_query.begin(), of_query.end());
    if (row.size() < table_.columns.size()) row.push_back(of_key);
    table_.rows.push_back(std::move(row));
  }

  const Result<GeometryQuestion>& result_;
  const Place& place_;
  const GeometryForm& form_;
  const Result<KeyWantedQuestion> wanted_;
  Table& table_;
};

Table table_of_one(Workspace& workspace, const Drawn& one) {
  const auto result =
      workspace.ask(GeometryQuestion{one.place, one.method, geometry_form(workspace)});
  Table table = empty_table(result.question.form);
  if (!result) return table;
  Rows rows(workspace, result, table);
  if (result.question.form.shows_queries()) rows.add_queries();
  if (result.question.form.shows_keys()) rows.add_keys();
  if (result.question.form.shows_queries()) rows.add_means();
  return table;
}

Table table(Workspace& workspace) {
  return table_of(all_drawn(workspace, kViewId),
                  [&](const Drawn& one) { return table_of_one(workspace, one); });
}

// The points are the place's, whatever the method.
Array array(Workspace& workspace) {
  const auto result = workspace.ask(
      GeometryQuestion{workspace.place(), workspace.method(), geometry_form(workspace)});
  if (!result) return {};
  const GeometryForm& form = result.question.form;
  const auto& points = form.shows_queries() ? result->points->queries : result->points->keys;
  std::vector<float> values;
  for (const auto& point : points)
    values.insert(values.end(), point.begin(), point.begin() + form.dimensions);
  return array_of("<f4", {static_cast<std::int64_t>(points.size()), form.dimensions}, values);
}

using Points = std::vector<std::array<float, 3>>;

GeometryQuestion::Box box_of(std::initializer_list<const Points*> clouds) {
  GeometryQuestion::Box box;
  bool first = true;
  for (const Points* cloud : clouds)
    for (const auto& point : *cloud) {
      if (!std::isfinite(point[0])) continue;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const double value = point[axis];
        box.low[axis] = first ? value : std::min(box.low[axis], value);
        box.high[axis] = first ? value : std::max(box.high[axis], value);
      }
      first = false;
    }
  return box;
}

void measure(GeometryQuestion::Answer& answer) {
  const analysis::HeadPoints& points = *answer.points;
  answer.query_box = box_of({&points.queries, &points.mean_queries});
  answer.key_box = box_of({&points.keys});
  const bool has_sink = points.keys.size() > 1 && points.key_positions.front() == 0;
  const std::vector<std::array<float, 3>> others(points.keys.begin() + (has_sink ? 1 : 0),
                                                 points.keys.end());
  answer.key_box_without_sink = box_of({&others});
  answer.box = box_of({&points.queries, &points.mean_queries, &points.keys});
  if (!points.relevance.empty()) {
    const auto [least, most] =
        std::minmax_element(points.relevance.begin(), points.relevance.end());
    answer.least_relevance = *least;
    answer.most_relevance = std::max(double{*most}, answer.least_relevance + 1e-6);
  }
  if (!answer.attention) return;
  for (std::size_t i = 0; i < points.queries.size(); ++i)
    answer.most_given = std::max(answer.most_given, answer.given(i));
  for (std::size_t i = 0; i < points.keys.size(); ++i)
    answer.most_received = std::max(answer.most_received, answer.received(i));
}

std::vector<KeyFate> fates_of(const Place& place, std::size_t num_keys,
                              const analysis::KvMap& map) {
  std::vector<KeyFate> fates;
  for (std::int32_t key = 0; key < static_cast<std::int32_t>(num_keys); ++key)
    fates.push_back({map.at(static_cast<std::size_t>(place.chunk), key)});
  return fates;
}

void mark_lost(std::vector<KeyFate>& fates, const analysis::SelectedVsTrue& cell) {
  for (std::size_t key = 0; key < std::min(fates.size(), cell.verdict.size()); ++key)
    fates[key].lost = cell.verdict[key] == analysis::KeyVerdict::Miss;
}

}  // namespace

GeometryForm geometry_form(const Workspace& workspace) {
  const auto place_of = [&](const char* option, std::initializer_list<const char*> choices) {
    const std::string& chosen = workspace.option(kViewId, option);
    const auto* found = std::find(choices.begin(), choices.end(), chosen);
    return found == choices.end() ? 0 : static_cast<int>(found - choices.begin());
  };
  GeometryForm form;
  form.fit = static_cast<GeometryForm::Fit>(place_of("fit", {"all", "queries", "keys", "both"}));
  form.color =
      static_cast<GeometryForm::Color>(place_of("color", {"s_q", "position", "fate", "attention"}));
  form.dimensions = 2 + place_of("dimensions", {"2", "3"});
  form.before_rotary = place_of("rope", {"after", "before"}) == 1;
  form.all_chunks = place_of("span", {"chunk", "head"}) == 1;
  return form;
}

QueryGeometryQuestion::Answer QueryGeometryQuestion::work(Steps& steps) const {
  Answer answer;
  answer.geometry = engine().query_geometry(*place.trace->session, place.layer, place.chunk,
                                            place.q_head, method.spec, steps.context);
  if (method.known()) answer.chosen_by = method.id();
  answer.votes_after = method.known() && method.spec->traits().evicts();
  const analysis::QueryGeometry& g = answer.geometry;
  answer.num_chosen = std::count(g.chosen.begin(), g.chosen.end(), 1);
  if (g.relevance.empty()) return answer;
  const auto [least, most] = std::minmax_element(g.relevance.begin(), g.relevance.end());
  answer.least_relevance = *least;
  answer.most_relevance = std::max(double{*most}, answer.least_relevance + 1e-6);
  answer.most_attention = *std::max_element(g.max_attention.begin(), g.max_attention.end());
  return answer;
}

std::uint64_t QueryGeometryQuestion::bytes(const Answer& answer) {
  return answer.geometry.relevance.size() * (4 * sizeof(float) + 1);
}

// Whether there is a method to keep keys, and it can work here.
bool GeometryQuestion::knows_kept_keys(const QueryGeometryQuestion::Answer& queries) const {
  return form.color == GeometryForm::Color::Relevance && form.shows_keys() && method.known() &&
         queries.geometry.chosen_missing.empty() && missing(place, method).empty();
}

HeadPointsQuestion GeometryQuestion::points() const {
  return {place, form.all_chunks, form.dimensions, form.apart(), form.before_rotary};
}

std::string GeometryQuestion::obstacle() const {
  const std::string obstacle = points().obstacle();
  if (!obstacle.empty() || form.color != GeometryForm::Color::Fate) return obstacle;
  return missing(place, method);
}

GeometryQuestion::Answer GeometryQuestion::work(Steps& steps) const {
  Answer answer;
  answer.queries = steps.need(QueryGeometryQuestion{place, method});
  answer.points = steps.need(points());
  if (form.color == GeometryForm::Color::Attention)
    answer.attention = steps.need(HeadAttentionQuestion{place, form.all_chunks});
  const bool is_fate = form.color == GeometryForm::Color::Fate;
  try {
    if (is_fate || knows_kept_keys(*answer.queries))
      answer.fates = fates_of(place, answer.points->every_key.size(),
                              steps.need(KvMapQuestion{place, method})->map);
  } catch (const Error& error) {
    // Without the run the points are still there; views of the run say what is wrong with it.
    if (is_fate || error.kind() != ErrorKind::Input) throw;
  }
  if (is_fate) mark_lost(answer.fates, steps.need(SelectedVsTrueQuestion{place, method})->cell);
  measure(answer);
  return answer;
}

std::uint64_t GeometryQuestion::bytes(const Answer& answer) {
  return sizeof(answer) + answer.fates.size() * sizeof(KeyFate) +
         QueryGeometryQuestion::bytes(*answer.queries) + HeadPointsQuestion::bytes(*answer.points) +
         (answer.attention ? HeadAttentionQuestion::bytes(*answer.attention) : 0);
}

std::optional<std::size_t> GeometryQuestion::Answer::row_of(const Place& at,
                                                            std::size_t query) const {
  const trace::ChunkInfo& chunk = at.chunk_info();
  const std::int32_t row = points->query_positions[query] - chunk.begin;
  return row >= 0 && row < chunk.length ? std::optional<std::size_t>(row) : std::nullopt;
}

float GeometryQuestion::Answer::given(std::size_t query) const {
  return attention->given[static_cast<std::size_t>(points->query_positions[query])];
}

float GeometryQuestion::Answer::received(std::size_t key) const {
  return attention->received[static_cast<std::size_t>(points->key_positions[key])];
}

std::string KeyWantedQuestion::obstacle() const {
  if (place.empty()) return missing(place);
  const auto keys = watched_keys(place);
  if (!keys) return "Choose a key";
  return keys->keys.first() < place.chunk_info().end() ? "" : "The key comes after the chunk";
}

KeyWantedQuestion::Answer KeyWantedQuestion::work(Steps& steps) const {
  const auto rows = steps.need(AttentionRowsQuestion{place});
  const auto keys = watched_keys(place);
  const std::vector<std::int32_t> wanted = keys->keys.positions_in(0, rows->cols);
  Answer answer;
  for (std::int64_t r = 0; r < rows->rows; ++r) {
    float sum = 0;
    for (const std::int64_t c : wanted)
      if (!std::isnan(rows->at(r, c))) sum += rows->at(r, c);
    if (sum > answer.most) {
      answer.most = sum;
      answer.most_of = answer.attention.size();
    }
    answer.attention.push_back(sum);
  }
  return answer;
}

bool asks_question(const Place& place) {
  const trace::ChunkInfo& chunk = place.chunk_info();
  for (std::int32_t position = chunk.begin; position < chunk.end(); ++position)
    if (in_question(place, position)) return true;
  return false;
}

ViewInfo query_geometry_view() {
  return ViewInfo{kViewId, "Query geometry",
                  "queries and keys in principal components, those ringed that the method asked",
                  "Queries, keys and heads"}
      .follow(At::Cell | At::Query | At::Keys)
      .take(2)
      .with(
          {show_option({Show::One, Show::Both}),
           {"fit",
            {"all", "queries", "keys", "both"},
            "what is shown, with principal components and axes fitted to it: queries and keys "
            "together, the queries alone, the keys alone, or both of these side by side",
            {"queries and keys", "queries", "keys", "side by side"}},
           {"color",
            {"s_q", "position", "fate", "attention"},
            "colours queries by S_q; queries and keys by position; keys by what became of them; "
            "queries by the largest attention given and keys by the largest received",
            {"S_q", "position", "fate", "attention"}},
           {"dimensions", {"2", "3"}, "how many principal components are drawn"},
           {"rope",
            {"after", "before"},
            "queries and keys as attention sees them, or as they were before the rotary embedding"},
           {"span",
            {"chunk", "head"},
            "the queries of the chunk, or of all chunks with the path of the mean query",
            {"this chunk", "all chunks"}}})
      .on_paper(0.9F)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
