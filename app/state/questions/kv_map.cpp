#include "app/state/questions/kv_map.h"

#include "app/state/labels.h"
#include "app/state/view.h"
#include "app/state/workspace.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::state {
namespace {

constexpr std::size_t kLargeMapCells = 8'000'000;
constexpr int kGridRows = 1024;
constexpr int kGridCols = 2048;

KvMapQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

std::string problem(Workspace& workspace) {
  const KvMapQuestion question = question_of(workspace);
  const std::string problem = problem_of(workspace.ask(question));
  return problem.empty()
             ? problem_of(workspace.ask(RecallQuestion{question.place, question.method}))
             : problem;
}

Table table(Workspace& workspace) {
  Table table{{"chunk", "key_begin", "key_end", "state", "mass_recall", "evicted_after"}, {}};
  const KvMapQuestion question = question_of(workspace);
  const auto result = workspace.ask(question);
  const auto recall = workspace.ask(RecallQuestion{question.place, question.method});
  if (!result || !recall) return table;
  const analysis::KvMap& map = result->map;
  const bool measured = !result->facts.keeps_every_key();
  for (std::size_t chunk = 0; chunk < map.chunks.size(); ++chunk)
    for (std::int32_t begin = 0, end = 0; begin < map.num_tokens; begin = end) {
      const analysis::KeyState state = map.at(chunk, begin);
      const auto death = map.death_of(begin);
      for (end = begin + 1;
           end < map.num_tokens && map.at(chunk, end) == state && map.death_of(end) == death;)
        ++end;
      table.rows.push_back({chunk, begin, end, label_of(state),
                            measured ? Cell((*recall)[chunk]) : Cell(),
                            death ? Cell(*death) : Cell()});
    }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return {};
  return array_of("|u1",
                  {static_cast<std::int64_t>(result->map.chunks.size()), result->map.num_tokens},
                  result->map.states);
}

}  // namespace

KvMapQuestion::Answer KvMapQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  Answer answer;
  answer.map =
      analysis::build_kv_map(*run, place.layer, row_of(place, *run), place.info().num_tokens);
  for (const analysis::KeyState state : answer.map.states)
    answer.present[static_cast<std::size_t>(state)] = true;
  if (answer.map.states.size() > kLargeMapCells)
    answer.grid = analysis::reduce_kv_map(answer.map, kGridRows, kGridCols);
  answer.facts = facts_of(place, method, *run);
  return answer;
}

std::uint64_t KvMapQuestion::bytes(const Answer& answer) {
  return answer.map.states.size() + answer.grid.counts.size() * sizeof(answer.grid.counts[0]) +
         answer.map.evict_chunk.size() * 2;
}

RecallQuestion::Answer RecallQuestion::work(Steps& steps) const {
  const auto run = steps.need(MeasuredRunQuestion{place, method});
  const auto row = static_cast<std::size_t>(row_of(place, *run));
  Answer recall;
  for (const replay::ReplayCell& cell : run->cells)
    recall.push_back(row < cell.metrics.size() ? cell.metrics[row].mass_recall
                                               : std::numeric_limits<double>::quiet_NaN());
  return recall;
}

std::optional<double> mean_recall(const RecallQuestion::Answer& recall, const MethodFacts& facts,
                                  const NumberChunks& chunks, const trace::TraceInfo& info) {
  if (facts.keeps_every_key()) return std::nullopt;
  const trace::Phase phase = chunks.phase(info, trace::Phase::Prefill);
  double sum = 0;
  int cells = 0;
  for (std::size_t c = 0; c < std::min(recall.size(), info.chunks.size()); ++c) {
    const int chunk = static_cast<int>(c);
    if (!chunks.has(chunk) || info.chunks[c].phase != phase || facts.at(chunk).dense) continue;
    if (std::isnan(recall[c])) continue;
    sum += recall[c];
    ++cells;
  }
  return cells > 0 ? std::optional(sum / cells) : std::nullopt;
}

ViewInfo kv_map_view() {
  ViewInfo view;
  view.id = "kv_map";
  view.title = "KV map";
  view.summary = "which keys the method kept, chunk by chunk";
  view.metrics = "How much is kept";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "key"};
  view.num_methods = 2;
  view.over_chunks = true;
  view.problem = problem;
  view.table = table;
  view.array = array;
  return view;
}

}  // namespace kvloupe::state
