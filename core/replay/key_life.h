// One key through the chunks, and one cell by its query heads (docs/explain.md). Free of Torch.
#pragma once

#include "core/replay/explain.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::replay {

// What became of one key in one row, chunk by chunk.
struct KeyLife {
  // Own: of the chunk itself. Unknown: the trace lacks the chunk's queries.
  enum class State { Unborn, Own, Kept, Lost, Evicted, Hidden, Unknown };
  struct Chunk {
    State state = State::Unborn;
    bool dense = false, forced = false;
    // As in Explanation; eviction: of the cut after the chunk before.
    std::optional<double> score, cut;
    double true_mass = 0;
    double share = 0;  // of what the candidates receive
  };
  std::vector<Chunk> chunks;
  std::optional<int> evicted_after;
};
// Of a row of the cell whose chunk ends at `end`. `evicts`: a candidate that the row lacks is gone for good.
KeyLife::State state_of_key(const trace::CellRecord& cell, std::int64_t end, int row,
                            std::int32_t key, bool evicts);
// Throws as replay().
KeyLife key_life(const session::TraceSession& session, const ExplainRequest& request,
                 const WorkContext& context);

// What each query head of a row would have kept alone, beside what the row keeps.
struct HeadChoices {
  struct Head {
    int q_head = 0;
    std::vector<std::int32_t> own;  // what it keeps alone, ascending
    // Shares of the head's own mass over the candidates.
    double recall_alone = 1, recall_merged = 1;
    struct Key {
      std::int32_t key = 0;
      double mass = 0;
    };
    // Its own best keys that the row lost, and what the row keeps in their place: most mass first, 20 at
    // most. `whole`: its own mass over the candidates.
    std::vector<Key> lost, gained;
    double whole = 0;
  };
  std::vector<Head> heads;           // empty where the method merges none, or evicts
  std::vector<std::int32_t> merged;  // what the row keeps
  double merge_loss() const;         // mean over heads of recall_alone - recall_merged
};
HeadChoices head_choices(const session::TraceSession& session, const ExplainRequest& request,
                         const WorkContext& context);
// The same for every row of a cell, in one go; request.row counts for nothing.
std::vector<HeadChoices> head_choices_of_rows(const session::TraceSession& session,
                                              const ExplainRequest& request,
                                              const WorkContext& context);

inline KeyLife::State state_of_key(const trace::CellRecord& cell, std::int64_t end, int row,
                                   std::int32_t key, bool evicts) {
  using State = KeyLife::State;
  if (key >= end) return State::Unborn;
  if (key >= cell.end_of_candidates()) return State::Own;
  if (key < cell.first_candidate) return State::Hidden;
  const auto& kept = cell.rows[static_cast<std::size_t>(row)].positions;
  if (std::binary_search(kept.begin(), kept.end(), key)) return State::Kept;
  return evicts ? State::Evicted : State::Lost;
}

inline double HeadChoices::merge_loss() const {
  double sum = 0;
  for (const Head& head : heads) sum += head.recall_alone - head.recall_merged;
  return heads.empty() ? 0 : sum / static_cast<double>(heads.size());
}

}  // namespace kvloupe::replay
