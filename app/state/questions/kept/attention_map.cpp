#include "app/state/questions/kept/attention_map.h"

#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/shown_methods.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kViewId = "attention_map";
constexpr int kMapSide = 1024;
constexpr std::int64_t kLargeStripCells = 8'000'000;
constexpr std::int64_t kStripColumns = 4096;
constexpr std::int64_t kSketchStep = 8;

// The attention is that of the place, whatever the methods: one picture of each trace.
AllDrawn traces_drawn(Workspace& workspace) {
  AllDrawn drawn = all_drawn(workspace, kViewId);
  if (!drawn.other) drawn.pictures = {{workspace.place(), workspace.method()}};
  return drawn;
}

std::string problem(Workspace& workspace) {
  // What the method kept is drawn where it is known: wait for it, but do not ask that it can be.
  std::string waiting;
  for (const Drawn& one : all_drawn(workspace, kViewId).pictures) {
    const auto verdicts = workspace.ask(SelectedVsTrueQuestion{one.place, one.method});
    if (verdicts.state == ResultState::Loading) waiting = problem_of(verdicts);
  }
  const std::string first = first_problem(traces_drawn(workspace), [&](const Drawn& one) {
    const std::string problems[] = {problem_of(workspace.ask(AttentionStripQuestion{one.place})),
                                    problem_of(workspace.ask(AttentionMapQuestion{one.place})),
                                    problem_of(workspace.ask(AttentionRowsQuestion{one.place}))};
    const auto* problem = std::find_if(std::begin(problems), std::end(problems),
                                       [](const std::string& text) { return !text.empty(); });
    return problem == std::end(problems) ? std::string() : *problem;
  });
  return first.empty() ? waiting : first;
}

Table table_of_one(Workspace& workspace, const Drawn& one) {
  Table table{{"query", "key", "attention"}, {}};
  const auto rows = workspace.ask(AttentionRowsQuestion{one.place});
  if (!rows) return table;
  const std::int32_t begin = rows.question.place.chunk_info().begin;
  for (std::int64_t r = 0; r < rows->rows; ++r)
    for (std::int64_t c = 0; c <= begin + r; ++c)
      table.rows.push_back({begin + r, c, rows->at(r, c)});
  return table;
}

Table table(Workspace& workspace) {
  return table_of(traces_drawn(workspace),
                  [&](const Drawn& one) { return table_of_one(workspace, one); });
}

Array array(Workspace& workspace) {
  return array_of(traces_drawn(workspace), [&](const Drawn& one) {
    const auto rows = workspace.ask(AttentionRowsQuestion{one.place});
    return rows ? array_of("<f4", {rows->rows, rows->cols}, rows->values) : Array{};
  });
}

}  // namespace

AttentionRowsQuestion::Answer AttentionRowsQuestion::work(Steps& steps) const {
  const trace::ChunkInfo& chunk = place.chunk_info();
  return engine().attention_rows(*place.trace->session, place.layer, place.q_head, chunk.begin,
                                 chunk.end(), steps.context);
}

bool AttentionStripQuestion::is_large() const {
  const trace::ChunkInfo& chunk = place.chunk_info();
  return std::int64_t{chunk.length} * chunk.end() > kLargeStripCells;
}

AttentionStripQuestion::Answer AttentionStripQuestion::work(Steps& steps) const {
  const trace::ChunkInfo& chunk = place.chunk_info();
  Answer answer;
  answer.query_begin = chunk.begin;
  if (!is_large()) {
    answer.rows = steps.need(AttentionRowsQuestion{place});
    answer.num_broken = analysis::count_broken(*answer.rows, answer.query_begin);
    return answer;
  }
  analysis::AttentionStrip strip = engine().attention_strip(
      *place.trace->session, place.layer, place.q_head, chunk.begin, chunk.end(), kStripColumns,
      is_sketch ? kSketchStep : 1, steps.context);
  answer.num_broken = strip.num_broken;
  answer.coarse = std::move(strip.max);
  answer.step = strip.step;
  return answer;
}

std::string AttentionRowQuestion::obstacle() const {
  return !place.empty() && place.query < 0 ? "Choose a query" : missing(place);
}

AttentionRowQuestion::Answer AttentionRowQuestion::work(Steps& steps) const {
  return engine().attention_rows(*place.trace->session, place.layer, place.q_head, place.query,
                                 place.query + 1, steps.context);
}

AttentionMapQuestion::Answer AttentionMapQuestion::work(Steps& steps) const {
  return engine().attention_map(*place.trace->session, place.layer, place.q_head, kMapSide,
                                steps.context);
}

ViewInfo attention_map_view() {
  return ViewInfo{kViewId, "Attention map",
                  "where one query head attends, with what the method kept below",
                  "What is kept of attention"}
      .follow(At::Cell | At::Query | At::Keys)
      .take(2)
      .with({show_option({Show::One, Show::Both, Show::Difference, Show::Traces},
                         "keys kept by A only, by B only, by both, by neither; tables and arrays "
                         "hold the attention in any case"),
             {"color_scale", {"log", "linear"}, "how a probability becomes a colour"},
             {"color_from",
              {"0.0001", "0.000001", "0.00001", "0.001", "0.01"},
              "the probability at the faint end of the colours"},
             {"color_to",
              {"0.25", "0.02", "0.05", "0.1", "0.5", "1"},
              "the probability at the bright end of the colours"}})
      .on_paper(1.2F)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
