#include "app/state/questions/kept/token_strip.h"

#include "app/state/labels.h"
#include "app/state/shown_methods.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/analysis/kv_difference.h"

namespace kvloupe::state {
namespace {

using analysis::KeyState;
using analysis::KeyVerdict;

constexpr const char* kViewId = "token_strip";

std::string problem_of_one(Workspace& workspace, const Drawn& one) {
  const auto map = workspace.ask(KvMapQuestion{one.place, one.method});
  const auto verdicts = workspace.ask(SelectedVsTrueQuestion{one.place, one.method});
  const std::string problem = problem_of(map);
  if (map && !map->map.knows(static_cast<std::size_t>(one.place.chunk)))
    return trace::lacks_queries(one.place.info(), one.place.chunk).what();
  // The map says most of it: the verdicts may fail.
  return problem.empty() && verdicts.state == ResultState::Loading ? problem_of(verdicts) : problem;
}

std::string problem(Workspace& workspace) {
  const AllDrawn drawn = all_drawn(workspace, kViewId);
  return first_problem(drawn, [&](const Drawn& one) { return problem_of_one(workspace, one); });
}

// What is known of one method's keys in the place's chunk.
struct Known {
  Result<KvMapQuestion> map;
  Result<SelectedVsTrueQuestion> verdicts;

  Known(Workspace& workspace, const Drawn& one)
      : map(workspace.ask(KvMapQuestion{one.place, one.method})),
        verdicts(workspace.ask(SelectedVsTrueQuestion{one.place, one.method})) {}
  bool has_chunk() const {
    return map && map->map.knows(static_cast<std::size_t>(map.question.place.chunk));
  }
  analysis::KeyState state(std::int32_t token) const {
    return map->map.at(static_cast<std::size_t>(map.question.place.chunk), token);
  }
  Cell verdict(std::int32_t token) const {
    const auto i = static_cast<std::size_t>(token);
    const bool judged = verdicts && i < verdicts->cell.verdict.size() &&
                        token < map.question.place.chunk_info().begin;
    return judged ? Cell(label_of(verdicts->cell.verdict[i])) : Cell();
  }
  Cell mass(std::int32_t token) const {
    const auto i = static_cast<std::size_t>(token);
    return verdicts && i < verdicts->cell.mass.size() ? Cell(verdicts->cell.mass[i]) : Cell();
  }
};

Table table_of_one(Workspace& workspace, const Drawn& one) {
  Table table{{"position", "token", "chunk", "state", "verdict", "mass", "evicted_after"}, {}};
  const Known known(workspace, one);
  if (!known.has_chunk()) return table;
  const Place& place = known.map.question.place;
  for (std::int32_t t = 0; t < known.map->map.num_tokens; ++t) {
    const auto death = known.map->map.death_of(t);
    table.rows.push_back({t, Token{place.trace->token_label[static_cast<std::size_t>(t)]},
                          place.info().chunk_of_token(t), label_of(known.state(t)),
                          known.verdict(t), known.mass(t), death ? Cell(*death) : Cell()});
  }
  return table;
}

// The candidates alone.
Table table_of_difference(Workspace& workspace) {
  Table table{{"position", "token", "chunk", "kept_by", "state_a", "state_b", "verdict_a",
               "verdict_b", "mass"},
              {}};
  const Known a(workspace, {workspace.place(), workspace.method(Slot::A)});
  const Known b(workspace, {workspace.place(), workspace.method(Slot::B)});
  if (!a.has_chunk() || !b.has_chunk()) return table;
  const Place& place = a.map.question.place;
  for (std::int32_t t = 0; t < place.chunk_info().begin; ++t) {
    const analysis::KeptBy who = analysis::kept_by(a.state(t), b.state(t));
    if (who == analysis::KeptBy::NoCandidate) continue;
    table.rows.push_back({t, Token{place.trace->token_label[static_cast<std::size_t>(t)]},
                          place.info().chunk_of_token(t), label_of(who), label_of(a.state(t)),
                          label_of(b.state(t)), a.verdict(t), b.verdict(t), a.mass(t)});
  }
  return table;
}

Table table(Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::Difference) return table_of_difference(workspace);
  return table_of(all_drawn(workspace, kViewId),
                  [&](const Drawn& one) { return table_of_one(workspace, one); });
}

}  // namespace

TextSearchQuestion::Answer TextSearchQuestion::work(Steps& /*steps*/) const {
  return find_text(place.trace->session->token_texts(), needle);
}

TokenLook look_of(const KvMapQuestion::Answer* map, const SelectedVsTrueQuestion::Answer* verdicts,
                  const Place& place, std::int32_t token) {
  const trace::ChunkInfo& chunk = place.chunk_info();
  const auto index = static_cast<std::size_t>(token);
  const auto row = static_cast<std::size_t>(place.chunk);
  if (token >= chunk.end()) return TokenLook::Future;
  if (map == nullptr || !map->map.knows(row)) return TokenLook::Plain;
  if (token < chunk.begin && verdicts != nullptr && index < verdicts->cell.verdict.size() &&
      verdicts->cell.verdict[index] == KeyVerdict::Miss)
    return map->map.at(row, token) == KeyState::Evicted ? TokenLook::MissedEvicted
                                                        : TokenLook::Missed;
  switch (map->map.at(row, token)) {
    case KeyState::Kept: return TokenLook::Kept;
    case KeyState::Sink: return TokenLook::Sink;
    case KeyState::Recent: return TokenLook::Recent;
    case KeyState::Dense: return TokenLook::Dense;
    case KeyState::Current: return TokenLook::Current;
    case KeyState::Evicted: return TokenLook::Evicted;
    case KeyState::Future:
    case KeyState::Hidden: return TokenLook::Future;
    case KeyState::Dropped: break;
  }
  return TokenLook::Plain;
}

ViewInfo token_strip_view() {
  return ViewInfo{kViewId, "Token strip", "the text, coloured by what happened to each key",
                  "What is kept of attention"}
      .follow(At::Cell | At::Keys)
      .take(2)
      .with({show_option({Show::One, Show::Both, Show::Difference, Show::Traces},
                         "each token in the colour of who kept it: A only, B only, both, neither")})
      .draw(problem, table);
}

}  // namespace kvloupe::state
