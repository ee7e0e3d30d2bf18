#include "app/state/questions/kept/kv_map.h"

#include "app/state/labels.h"
#include "app/state/questions/averaged_chunks.h"
#include "app/state/questions/kept/kv_difference.h"
#include "app/state/shown_methods.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/analysis/kv_difference.h"
#include "core/base/letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace kvloupe::state {
namespace {

constexpr std::size_t kLargeMapCells = 8'000'000;
constexpr int kGridRows = 1024;
constexpr int kGridCols = 2048;

constexpr const char* kViewId = "kv_map";

bool against_truth(const Workspace& workspace) {
  return workspace.option(kViewId, "truth") == "on";
}

std::string problem_of_one(Workspace& workspace, const Drawn& one) {
  const std::string problem = problem_of(workspace.ask(KvMapQuestion{one.place, one.method}));
  return problem.empty() ? problem_of(workspace.ask(RecallQuestion{one.place, one.method}))
                         : problem;
}

std::string problem(Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::Difference) {
    const KvDifferenceQuestion question = kv_difference_question(workspace);
    const std::string problem = problem_of(workspace.ask(question));
    if (!problem.empty() || !against_truth(workspace)) return problem;
    return problem_of(workspace.ask(TrueKeysQuestion{question.place, question.a, question.b}));
  }
  const AllDrawn drawn = all_drawn(workspace, kViewId);
  return first_problem(drawn, [&](const Drawn& one) { return problem_of_one(workspace, one); });
}

// Neighbours that are alike are one line.
Table table_of_one(Workspace& workspace, const Drawn& one) {
  Table table{{"chunk", "key_begin", "key_end", "state", "mass_recall", "evicted_after"}, {}};
  const auto result = workspace.ask(KvMapQuestion{one.place, one.method});
  const auto recall = workspace.ask(RecallQuestion{one.place, one.method});
  if (!result || !recall) return table;
  const analysis::KvMap& map = result->map;
  const bool measured = !result->facts.keeps_every_key();
  for (std::size_t chunk = 0; chunk < map.chunks.size(); ++chunk)
    for (std::int32_t begin = 0, end = 0; map.knows(chunk) && begin < map.num_tokens; begin = end) {
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

// The candidates alone; with the truth also by whether true attention would have kept them.
Table table_of_difference(Workspace& workspace) {
  const KvDifferenceQuestion question = kv_difference_question(workspace);
  const auto result = workspace.ask(question);
  const bool with_truth = against_truth(workspace);
  Table table{{"chunk", "key_begin", "key_end", "kept_by"}, {}};
  if (with_truth) table.columns.emplace_back("true_key");
  if (!result) return table;
  const analysis::KvDifference& map = result->map;
  std::vector<std::vector<std::int32_t>> true_keys;
  if (with_truth) {
    const auto keys = workspace.ask(TrueKeysQuestion{question.place, question.a, question.b});
    if (!keys) return table;
    true_keys = *keys;
  }
  for (std::size_t chunk = 0; chunk < map.chunks.size(); ++chunk) {
    const auto is_true = [&](std::int32_t key) {
      return with_truth &&
             std::binary_search(true_keys[chunk].begin(), true_keys[chunk].end(), key);
    };
    for (std::int32_t begin = 0, end = 0; begin < map.num_tokens; begin = end) {
      const analysis::KeptBy what = map.at(chunk, begin);
      const bool truth = is_true(begin);
      for (end = begin + 1;
           end < map.num_tokens && map.at(chunk, end) == what && is_true(end) == truth;)
        ++end;
      if (what == analysis::KeptBy::NoCandidate) continue;
      table.rows.push_back({chunk, begin, end, label_of(what)});
      if (with_truth) table.rows.back().emplace_back(truth);
    }
  }
  return table;
}

Table table(Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::Difference) return table_of_difference(workspace);
  return table_of(all_drawn(workspace, kViewId),
                  [&](const Drawn& one) { return table_of_one(workspace, one); });
}

Array array(Workspace& workspace) {
  const auto of_map = [](const auto& map, const auto& cells) {
    return array_of("|u1", {static_cast<std::int64_t>(map.chunks.size()), map.num_tokens}, cells);
  };
  if (show_of(workspace, kViewId) == Show::Difference) {
    const auto result = workspace.ask(kv_difference_question(workspace));
    return result ? of_map(result->map, result->map.cells) : Array{};
  }
  return array_of(all_drawn(workspace, kViewId), [&](const Drawn& one) {
    const auto result = workspace.ask(KvMapQuestion{one.place, one.method});
    return result ? of_map(result->map, result->map.states) : Array{};
  });
}

std::vector<MethodChoice> more_methods(const Workspace& workspace) {
  return methods_beside(workspace, kViewId);
}

trace::Phase phase_of_mean(const NumberChunks& chunks, const trace::TraceInfo& info) {
  return chunks.phase(info, trace::Phase::Prefill);
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

std::optional<KeptOfSpan> kept_of_span(const KvMapQuestion::Answer& answer, const Place& place) {
  const auto span = watched_keys(place);
  const auto chunk = static_cast<std::size_t>(place.chunk);
  if (!span || !answer.map.knows(chunk)) return std::nullopt;
  KeptOfSpan kept{readable_name(span->name)};
  for (const std::int32_t key : span->keys.positions_in(0, answer.map.chunks[chunk].begin)) {
    const analysis::KeyState state = answer.map.at(chunk, key);
    kept.total += state == analysis::KeyState::Hidden ? 0 : 1;
    kept.kept += analysis::is_kept(state) ? 1 : 0;
  }
  return kept.total > 0 ? std::optional(std::move(kept)) : std::nullopt;
}

RecallQuestion::Answer RecallQuestion::work(Steps& steps) const {
  const auto run = steps.need(MeasuredRunQuestion{place, method});
  const auto row = static_cast<std::size_t>(row_of(place, *run));
  Answer recall(place.info().chunks.size(), std::numeric_limits<double>::quiet_NaN());
  for (const replay::ReplayCell& cell : run->cells)
    if (row < cell.metrics.size())
      recall.at(static_cast<std::size_t>(cell.chunk)) = cell.metrics[row].mass_recall;
  return recall;
}

std::optional<double> mean_recall(const RecallQuestion::Answer& recall, const MethodFacts& facts,
                                  const NumberChunks& chunks, const trace::TraceInfo& info) {
  if (facts.keeps_every_key()) return std::nullopt;
  const trace::Phase phase = phase_of_mean(chunks, info);
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

std::string finding_of(const KvMapQuestion::Answer& answer, const RecallQuestion::Answer* recall,
                       const NumberChunks& chunks, const Place& place) {
  const auto recall_in = [&](const NumberChunks& of) {
    const auto mean =
        recall != nullptr ? mean_recall(*recall, answer.facts, of, place.info()) : std::nullopt;
    return mean ? fmt::format("mass recall {:.3f}", *mean) : std::string();
  };
  const auto sentence = [&](const NumberChunks& of, const std::string& words) {
    const trace::TraceInfo& info = place.info();
    return fmt::format("{}: {}.", capitalised(words_of(of, info, phase_of_mean(of, info))), words);
  };
  const NumberChunks here = number_chunks({NumberScope::Kind::Chunk}, place, chunks.kind);
  const auto kept = kept_of_span(answer, place);
  std::string of_chunk = kept ? words_of(*kept) : "";
  if (const std::string own = recall_in(here); !own.empty())
    of_chunk += (of_chunk.empty() ? "" : ", ") + own;
  std::string text = of_chunk.empty() ? "" : sentence(here, of_chunk);
  if (!chunks.chosen || chunks.range == here.range) return text;
  if (const std::string mean = recall_in(chunks); !mean.empty())
    text += (text.empty() ? "" : " ") + sentence(chunks, mean);
  return text;
}

ViewInfo kv_map_view() {
  return ViewInfo{kViewId, "KV map", "which keys the method kept, chunk by chunk",
                  "How much is kept"}
      .follow(At::Cell | At::Keys)
      .take(2, more_methods)
      .with({show_option({Show::One, Show::Both, Show::Difference, Show::Traces, Show::Several},
                         "keys kept by A only, by B only, by both, by neither"),
             {"truth",
              {"off", "on"},
              "of the difference: on marks the keys of largest true attention mass, as many "
              "as the smaller "
              "of the two sets holds"}})
      .count_chunks()
      .tabulate_all_chunks()
      .on_paper(0.85F)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
