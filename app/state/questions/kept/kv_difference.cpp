#include "app/state/questions/kept/kv_difference.h"

#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <algorithm>

namespace kvloupe::state {
namespace {

// The cell that selected fewer keys; null where both are dense, or where there is none.
const replay::ReplayCell* smaller(const replay::ReplayCell* a, std::size_t row_a,
                                  const replay::ReplayCell* b, std::size_t row_b) {
  const auto size = [](const replay::ReplayCell* cell, std::size_t row) {
    return cell->rows[row].positions.size();
  };
  const bool is_a = a != nullptr && !a->dense_reason && row_a < a->rows.size();
  const bool is_b = b != nullptr && !b->dense_reason && row_b < b->rows.size();
  if (is_a && is_b) return size(b, row_b) < size(a, row_a) ? b : a;
  return is_a ? a : is_b ? b : nullptr;
}

}  // namespace

KvDifferenceQuestion kv_difference_question(const Workspace& workspace) {
  return {workspace.place(), workspace.method(Slot::A), workspace.method(Slot::B)};
}

Lane KvDifferenceQuestion::lane() const { return selects() ? Lane::Whole : Lane::TraceIo; }

KvDifferenceQuestion::Answer KvDifferenceQuestion::work(Steps& steps) const {
  const auto map_a = steps.need(KvMapQuestion{place, a});
  const auto map_b = steps.need(KvMapQuestion{place, b});
  if (map_a->map.states.size() != map_b->map.states.size())
    throw input_error("A and B cannot be compared", "one of them was recorded on some chunks only",
                      "choose another method");
  Answer answer;
  answer.map = analysis::difference_of(map_a->map, map_b->map);
  if (!map_a->grid.counts.empty())
    answer.grid = analysis::reduce_kv_difference(answer.map, map_a->grid.rows, map_a->grid.cols);
  answer.facts_a = map_a->facts;
  answer.facts_b = map_b->facts;
  return answer;
}

TrueKeysQuestion::Answer TrueKeysQuestion::work(Steps& steps) const {
  const auto run_a = steps.need(RunQuestion{place, a});
  const auto run_b = steps.need(RunQuestion{place, b});
  const int row_a = row_of(place, *run_a), row_b = row_of(place, *run_b);
  const auto num_chunks = static_cast<int>(place.info().chunks.size());
  Answer keys(static_cast<std::size_t>(num_chunks));
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    steps.context.cancel.throw_if_cancelled();
    const replay::ReplayCell* of_a = run_a->find(place.layer, chunk);
    const replay::ReplayCell* cell =
        smaller(of_a, static_cast<std::size_t>(row_a), run_b->find(place.layer, chunk),
                static_cast<std::size_t>(row_b));
    if (cell == nullptr || !place.info().has_queries(chunk)) continue;
    const bool is_a = cell == of_a;
    const int row = is_a ? row_a : row_b;
    const analysis::SelectedVsTrue ranked = engine().selected_vs_true(
        *place.trace->session, *cell, row, is_a ? run_a->q_heads_per_row : run_b->q_heads_per_row);
    std::vector<std::int32_t>& positions = keys[static_cast<std::size_t>(chunk)];
    const std::size_t room = cell->rows[static_cast<std::size_t>(row)].positions.size();
    // Keys of the chunk itself are no candidates of the map.
    for (std::size_t i = 0; i < std::min(room, ranked.by_true_rank.size()); ++i)
      if (ranked.by_true_rank[i].position < cell->span.begin)
        positions.push_back(ranked.by_true_rank[i].position);
    std::sort(positions.begin(), positions.end());
  }
  return keys;
}

}  // namespace kvloupe::state
