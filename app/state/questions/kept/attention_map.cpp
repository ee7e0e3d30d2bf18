#include "app/state/questions/kept/attention_map.h"

#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/shown_methods.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kViewId = "attention_map";
constexpr int kMapSide = 1024;
constexpr std::size_t kLargeStripCells = 8'000'000;
constexpr std::int64_t kStripColumns = 4096;

std::uint64_t bytes_of_values(const analysis::Matrix& matrix) {
  return matrix.values.size() * sizeof(float);
}

std::string problem(Workspace& workspace) {
  const Place& place = workspace.place();
  // What the method kept is drawn where it is known: wait for it, but do not ask that it can be.
  std::string waiting;
  for (const MethodChoice& method : methods_drawn(workspace, kViewId)) {
    const auto verdicts = workspace.ask(SelectedVsTrueQuestion{place, method});
    if (verdicts.state == ResultState::Loading) waiting = problem_of(verdicts);
  }
  for (const std::string& problem : {problem_of(workspace.ask(AttentionStripQuestion{place})),
                                     problem_of(workspace.ask(AttentionMapQuestion{place})),
                                     problem_of(workspace.ask(AttentionRowsQuestion{place}))})
    if (!problem.empty()) return problem;
  return waiting;
}

Table table(Workspace& workspace) {
  Table table{{"query", "key", "attention"}, {}};
  const auto rows = workspace.ask(AttentionRowsQuestion{workspace.place()});
  if (!rows) return table;
  const std::int32_t begin = rows.question.place.chunk_info().begin;
  for (std::int64_t r = 0; r < rows->rows; ++r)
    for (std::int64_t c = 0; c <= begin + r; ++c)
      table.rows.push_back({begin + r, c, rows->at(r, c)});
  return table;
}

Array array(Workspace& workspace) {
  const auto rows = workspace.ask(AttentionRowsQuestion{workspace.place()});
  return rows ? array_of("<f4", {rows->rows, rows->cols}, rows->values) : Array{};
}

}  // namespace

AttentionRowsQuestion::Answer AttentionRowsQuestion::work(Steps& steps) const {
  const trace::ChunkInfo& chunk = place.chunk_info();
  return engine().attention_rows(*place.trace->session, place.layer, place.q_head, chunk.begin,
                                 chunk.end(), steps.context);
}

std::uint64_t AttentionRowsQuestion::bytes(const Answer& answer) { return bytes_of_values(answer); }

AttentionStripQuestion::Answer AttentionStripQuestion::work(Steps& steps) const {
  Answer answer;
  answer.rows = steps.need(AttentionRowsQuestion{place});
  answer.query_begin = place.chunk_info().begin;
  answer.num_broken = analysis::count_broken(*answer.rows, answer.query_begin);
  if (answer.rows->values.size() <= kLargeStripCells) return answer;
  answer.step = (answer.rows->cols + kStripColumns - 1) / kStripColumns;
  answer.coarse = largest_of_columns(*answer.rows, answer.step, answer.query_begin);
  return answer;
}

std::uint64_t AttentionStripQuestion::bytes(const Answer& answer) {
  return bytes_of_values(*answer.rows) + bytes_of_values(answer.coarse);
}

std::string AttentionRowQuestion::obstacle() const {
  if (place.empty()) return "Open a trace";
  return place.query < 0 ? "Choose a query" : "";
}

AttentionRowQuestion::Answer AttentionRowQuestion::work(Steps& steps) const {
  return engine().attention_rows(*place.trace->session, place.layer, place.q_head, place.query,
                                 place.query + 1, steps.context);
}

std::uint64_t AttentionRowQuestion::bytes(const Answer& answer) { return bytes_of_values(answer); }

AttentionMapQuestion::Answer AttentionMapQuestion::work(Steps& steps) const {
  return engine().attention_map(*place.trace->session, place.layer, place.q_head, kMapSide,
                                steps.context);
}

std::uint64_t AttentionMapQuestion::bytes(const Answer& answer) {
  return bytes_of_values(answer.max) + bytes_of_values(answer.mean);
}

analysis::Matrix largest_of_columns(const analysis::Matrix& matrix, std::int64_t step,
                                    std::int32_t query_begin) {
  analysis::Matrix reduced{matrix.rows, (matrix.cols + step - 1) / step, {}};
  reduced.values.assign(static_cast<std::size_t>(reduced.rows * reduced.cols),
                        std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t r = 0; r < matrix.rows; ++r)
    for (std::int64_t c = 0; c < std::min(matrix.cols, query_begin + r + 1); ++c) {
      float& largest = reduced.values[static_cast<std::size_t>(r * reduced.cols + c / step)];
      const float p = matrix.at(r, c);
      if (c % step == 0 || std::isnan(p) || p > largest) largest = p;  // a NaN stays
    }
  return reduced;
}

ViewInfo attention_map_view() {
  ViewInfo view;
  view.id = kViewId;
  view.title = "Attention map";
  view.summary = "where one query head attends, with what the method kept below";
  view.metrics = "What is kept of attention";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "query", "key"};
  view.num_methods = 2;
  view.options = {
      show_option("keys kept by A only, by B only, by both, by neither; tables and arrays "
                  "hold the attention in any case"),
      {"color_scale", {"log", "linear"}, "how a probability becomes a colour"},
      {"color_from",
       {"0.0001", "0.000001", "0.00001", "0.001", "0.01"},
       "the probability at the faint end of the colours"},
      {"color_to",
       {"0.25", "0.02", "0.05", "0.1", "0.5", "1"},
       "the probability at the bright end of the colours"}};
  view.problem = problem;
  view.table = table;
  view.array = array;
  return view;
}

}  // namespace kvloupe::state
