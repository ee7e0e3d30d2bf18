#include "app/state/questions/how_it_works/received_rankings.h"

#include "app/state/questions/kept/kv_map.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::state {
namespace {

using analysis::KeyKind;
using analysis::ReceivedRankings;

// Of the keys that are neither global nor query-specific the scatter draws about so many, evenly
// over the text: a frame must not wait for a hundred thousand dots.
constexpr std::int64_t kOthersDrawn = 2000;

void count_and_thin(ReceivedRankingsQuestion::Answer& answer) {
  const std::vector<KeyKind>& kind = answer.rankings.kind;
  answer.num_global = std::count(kind.begin(), kind.end(), KeyKind::Global);
  answer.num_query_specific = std::count(kind.begin(), kind.end(), KeyKind::QuerySpecific);
  answer.num_broken = std::count(kind.begin(), kind.end(), KeyKind::Broken);
  const std::int64_t others = answer.rankings.num_keys() - answer.num_global -
                              answer.num_query_specific - answer.num_broken;
  answer.drawn_one_in = std::max<std::int64_t>(1, (others + kOthersDrawn - 1) / kOthersDrawn);
  for (const KeyKind wanted : {KeyKind::Other, KeyKind::Global, KeyKind::QuerySpecific}) {
    std::int64_t seen = 0;
    for (std::size_t j = 0; j < kind.size(); ++j) {
      if (kind[j] != wanted) continue;
      if (wanted == KeyKind::Other && seen++ % answer.drawn_one_in != 0) continue;
      answer.drawn.push_back(static_cast<std::int32_t>(j));
    }
  }
}

std::vector<KeyFate> fates_of(const ReceivedRankings& rankings,
                              const std::vector<std::uint8_t>& selected,
                              const replay::ReplayCell& cell, const analysis::KvMap& map) {
  const auto chunk = static_cast<std::size_t>(cell.chunk);
  KVLOUPE_CHECK(map.knows(chunk));
  std::vector<KeyFate> fates;
  for (std::size_t key = 0; key < selected.size(); ++key) {
    const KeyKind kind = rankings.kind[key];
    const bool wanted = kind == KeyKind::Global || kind == KeyKind::QuerySpecific;
    fates.push_back({map.at(chunk, static_cast<std::int32_t>(key)), wanted && selected[key] == 0});
  }
  return fates;
}

std::string problem(Workspace& workspace) {
  const Place& place = workspace.place();
  // What the method selected is drawn where it is known: wait for it, but do not ask that it can be.
  const std::string problem = problem_of(workspace.ask(ReceivedRankingsQuestion{place}));
  const auto selection = workspace.ask(RankedSelectionQuestion{place, workspace.method()});
  if (!problem.empty()) return problem;
  return selection.state == ResultState::Loading ? problem_of(selection) : "";
}

Table table(Workspace& workspace) {
  Table table{{"key", "mean", "max", "mean_rank", "max_rank", "kind", "selected"}, {}};
  const auto result = workspace.ask(ReceivedRankingsQuestion{workspace.place()});
  const auto selection =
      workspace.ask(RankedSelectionQuestion{workspace.place(), workspace.method()});
  if (!result) return table;
  const ReceivedRankings& r = result->rankings;
  const bool known = selection && !selection->selected.empty();
  const auto rank = [&](const std::vector<std::int32_t>& ranks, std::size_t j) {
    return r.kind[j] == KeyKind::Broken ? Cell() : Cell(ranks[j] + 1);
  };
  for (std::size_t j = 0; j < r.mean.size(); ++j)
    table.rows.push_back({j, r.mean[j], r.max[j], rank(r.mean_rank, j), rank(r.max_rank, j),
                          analysis::name_of(r.kind[j]),
                          known ? Cell(selection->selected[j] != 0) : Cell()});
  return table;
}

}  // namespace

std::string ReceivedRankingsQuestion::obstacle() const {
  if (place.empty() || place.chunk_info().begin > 0) return missing(place);
  return "The first chunk has no past keys to rank: step to a later one";
}

ReceivedRankingsQuestion::Answer ReceivedRankingsQuestion::work(Steps& steps) const {
  const auto [begin, end] = place.query_window();
  const int group = place.info().model.gqa_group_size();
  Answer answer;
  answer.rankings =
      engine().received_rankings(*place.trace->session, place.layer, place.kv_head() * group, group,
                                 begin, end, place.chunk_info().begin, steps.context);
  for (const float mean : answer.rankings.mean)
    answer.most_mean = std::fmax(answer.most_mean, static_cast<double>(mean));  // a NaN never wins
  count_and_thin(answer);
  return answer;
}

std::uint64_t ReceivedRankingsQuestion::bytes(const Answer& answer) {
  return answer.rankings.mean.size() * 17 + answer.drawn.size() * sizeof(answer.drawn[0]);
}

std::string RankedSelectionQuestion::obstacle() const {
  const std::string obstacle = ReceivedRankingsQuestion{place}.obstacle();
  return obstacle.empty() ? missing(place, method) : obstacle;
}

RankedSelectionQuestion::Answer RankedSelectionQuestion::work(Steps& steps) const {
  const auto ranked = steps.need(ReceivedRankingsQuestion{place});
  const auto run = steps.need(RunQuestion{place, method});
  Answer answer;
  answer.facts = facts_of(place, method, *run);
  const replay::ReplayCell* cell = run->find(place.layer, place.chunk);
  const auto row = static_cast<std::size_t>(row_of(place, *run));
  if (cell == nullptr || row >= cell->rows.size()) return answer;
  const std::vector<std::int32_t>& kept = cell->rows[row].positions;
  const std::int64_t num_keys = ranked->rankings.num_keys();
  answer.selected.assign(static_cast<std::size_t>(num_keys), 0);
  for (const std::int32_t position : kept)
    if (position < num_keys) answer.selected[static_cast<std::size_t>(position)] = 1;
  answer.fates = fates_of(ranked->rankings, answer.selected, *cell,
                          steps.need(KvMapQuestion{place, method})->map);
  answer.global = analysis::count_kind(ranked->rankings, KeyKind::Global, kept);
  answer.query_specific = analysis::count_kind(ranked->rankings, KeyKind::QuerySpecific, kept);
  return answer;
}

std::uint64_t RankedSelectionQuestion::bytes(const Answer& answer) {
  return answer.selected.size() + answer.fates.size() * sizeof(answer.fates[0]) +
         answer.facts.chunks.size() * sizeof(answer.facts.chunks[0]);
}

ViewInfo received_rankings_view() {
  return ViewInfo{
      "received_rankings", "Received rankings",
      "keys by the mean and by the largest attention that a window of queries gives them",
      "Queries, keys and heads"}
      .follow(At::Cell | At::Window | At::Keys)
      .on_paper(1.35F)
      .draw(problem, table);
}

}  // namespace kvloupe::state
