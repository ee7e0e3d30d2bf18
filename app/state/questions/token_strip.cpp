#include "app/state/questions/token_strip.h"

#include "app/state/labels.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"

namespace kvloupe::state {
namespace {

using analysis::KeyState;
using analysis::KeyVerdict;

std::string problem(Workspace& workspace) {
  const auto map = workspace.ask(KvMapQuestion{workspace.place(), workspace.method()});
  const auto verdicts =
      workspace.ask(SelectedVsTrueQuestion{workspace.place(), workspace.method()});
  const std::string problem = problem_of(map);
  // The map says most of it: the verdicts may fail.
  return problem.empty() && verdicts.state == ResultState::Loading ? problem_of(verdicts) : problem;
}

Table table(Workspace& workspace) {
  Table table{{"position", "token", "chunk", "state", "verdict", "mass", "evicted_after"}, {}};
  const auto map = workspace.ask(KvMapQuestion{workspace.place(), workspace.method()});
  const auto verdicts =
      workspace.ask(SelectedVsTrueQuestion{workspace.place(), workspace.method()});
  if (!map) return table;
  const Place& place = map.question.place;
  const auto chunk = static_cast<std::size_t>(place.chunk);
  if (chunk >= map->map.chunks.size()) return table;
  for (std::int32_t t = 0; t < map->map.num_tokens; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const bool judged =
        verdicts && i < verdicts->cell.verdict.size() && t < place.chunk_info().begin;
    const auto death = map->map.death_of(t);
    table.rows.push_back(
        {t, Token{place.trace->token_label[i]}, place.info().chunk_of_token(t),
         label_of(map->map.at(chunk, t)),
         judged ? Cell(label_of(verdicts->cell.verdict[i])) : Cell(),
         verdicts && i < verdicts->cell.mass.size() ? Cell(verdicts->cell.mass[i]) : Cell(),
         death ? Cell(*death) : Cell()});
  }
  return table;
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
  if (map == nullptr || row >= map->map.chunks.size()) return TokenLook::Plain;
  if (token < chunk.begin && verdicts != nullptr && index < verdicts->cell.verdict.size() &&
      verdicts->cell.verdict[index] == KeyVerdict::Miss)
    return TokenLook::Missed;
  switch (map->map.at(row, token)) {
    case KeyState::Kept:
      return TokenLook::Kept;
    case KeyState::Sink:
      return TokenLook::Sink;
    case KeyState::Recent:
      return TokenLook::Recent;
    case KeyState::Dense:
      return TokenLook::Dense;
    case KeyState::Current:
      return TokenLook::Current;
    case KeyState::Evicted:
      return TokenLook::Evicted;
    case KeyState::Future:
    case KeyState::Hidden:
      return TokenLook::Future;
    case KeyState::Dropped:
      break;
  }
  return TokenLook::Plain;
}

ViewInfo token_strip_view() {
  ViewInfo view;
  view.id = "token_strip";
  view.title = "Token strip";
  view.summary = "the text, coloured by what happened to each key";
  view.metrics = "What is kept of attention";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "key"};
  view.problem = problem;
  view.table = table;
  return view;
}

}  // namespace kvloupe::state
