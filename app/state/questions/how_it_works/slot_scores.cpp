#include "app/state/questions/how_it_works/slot_scores.h"

#include "app/state/questions/how_it_works/stand_in.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::state {
namespace {

using Answer = SlotScoresQuestion::Answer;

std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(slot_scores_question(workspace));
  if (result && result->slots.num_keys() == 0) return "there are no keys before this chunk";
  return problem_of(result);
}

Table table(Workspace& workspace) {
  Table table{{"key", "token", "score", "slot", "query", "kept"}, {}};
  const auto result = workspace.ask(slot_scores_question(workspace));
  if (!result) return table;
  const analysis::SlotScores& slots = result->slots;
  const Place& place = result.question.place;
  for (std::int64_t key = 0; key < slots.num_keys(); ++key) {
    const auto i = static_cast<std::size_t>(key);
    const std::int32_t position = slots.position(key);
    table.rows.push_back({position,
                          Token{place.trace->token_label[static_cast<std::size_t>(position)]},
                          slots.score[i], slots.winner[i], result->query(place, slots.winner[i]),
                          slots.kept[i] != 0});
  }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(slot_scores_question(workspace));
  if (!result) return {};
  const analysis::Matrix& scores = result->slots.scores;
  return array_of("<f4", {scores.rows, scores.cols}, scores.values);
}

constexpr MethodKind kWithSlots{.id = "quoka",
                                .others = "scores keys without query slots",
                                .things = "slots",
                                .same_budget = true,
                                .has = [](const MethodChoice& method, const trace::TraceInfo&) {
                                  return method.known() && method.spec->traits().has_slots;
                                }};

void count_won(Answer& answer) {
  const analysis::SlotScores& slots = answer.slots;
  answer.won.assign(static_cast<std::size_t>(slots.num_slots()), 0);
  for (std::size_t key = 0; key < slots.winner.size(); ++key) {
    if (slots.kept[key] == 0) continue;
    ++answer.num_kept;
    ++answer.won[static_cast<std::size_t>(slots.winner[key])];
  }
}

class Extent {
 public:
  void add(float score) {
    if (!std::isfinite(score)) return;
    range_.least = empty_ ? score : std::min(range_.least, score);
    range_.most = empty_ ? score : std::max(range_.most, score);
    empty_ = false;
  }
  Answer::Range range() const {
    return {range_.least, std::max(range_.most, range_.least + 1e-6F)};
  }

 private:
  Answer::Range range_;
  bool empty_ = true;
};

void measure(Answer& answer) {
  const analysis::SlotScores& slots = answer.slots;
  Extent scores, ranked;
  for (std::int64_t key = 0; key < slots.num_keys(); ++key) {
    if (slots.position(key) == 0 && slots.num_keys() > 1) continue;
    ranked.add(slots.score[static_cast<std::size_t>(key)]);
    for (std::int64_t slot = 0; slot < slots.num_slots(); ++slot)
      scores.add(slots.scores.at(slot, key));
  }
  answer.scores = scores.range();
  if (slots.num_keys() > 1 && slots.position(0) == 0)
    for (std::int64_t slot = 0; slot < slots.num_slots(); ++slot)
      answer.sink_beyond |= slots.scores.at(slot, 0) > answer.scores.most;
  answer.ranked = ranked.range();
}

}  // namespace

Answer SlotScoresQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  Answer answer;
  answer.slots = engine().slot_scores(*place.trace->session, *method.spec, *run, place.layer,
                                      place.chunk, place.q_head, steps.context);
  count_won(answer);
  measure(answer);
  answer.facts = facts_of(place, method, *run);
  return answer;
}

std::uint64_t SlotScoresQuestion::bytes(const Answer& answer) {
  const analysis::SlotScores& slots = answer.slots;
  std::uint64_t sum = sizeof(answer) + bytes_in(slots.scores.values, slots.score, slots.winner,
                                                slots.kept, answer.won);
  for (const auto& queries : slots.queries) sum += sizeof(queries) + bytes_in(queries);
  return sum;
}

std::int32_t Answer::query(const Place& at, std::int64_t slot) const {
  const std::vector<std::int32_t>& queries = slots.queries[static_cast<std::size_t>(slot)];
  if (queries.size() == 1) return queries.front();
  const auto head = static_cast<std::size_t>(at.q_head) % queries.size();
  return queries[head];
}

SlotScoresQuestion slot_scores_question(const Workspace& workspace) {
  StandIn shown = stand_in_for(workspace, kWithSlots);
  return {workspace.place(), std::move(shown.method), std::move(shown.why)};
}

ViewInfo slot_scores_view() {
  return ViewInfo{"slot_scores", "Slot by key scores",
                  "how each query slot of QuoKA scores every key, and the slot that wins it",
                  "Queries, keys and heads"}
      .follow(At::Cell | At::Query | At::Keys)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
