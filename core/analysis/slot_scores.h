// How each slot of QuoKA (Algorithm 1), or of its ablation, scores the keys of one KV head, and which slot
// a key owes its score to. A slot is one query row of each query head of the group.
#pragma once

#include "core/analysis/matrix.h"
#include "core/replay/replay.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

struct SlotScores {
  int layer = 0, chunk = 0, kv_head = 0, q_head = 0;
  trace::ChunkInfo span;
  // Each head's rows are reduced by themselves (group_query_mode=post_agg): slots are those of the query
  // head alone, and `score` is the mean over the heads.
  bool is_one_head = false;
  bool takes_mean = false;  // over the slots; else the largest
  // Positions of the query rows, [slots][query heads that the slot joins]; of QuoKA the row of largest S_q
  // comes first.
  std::vector<std::vector<std::int32_t>> queries;
  std::int32_t first_key = 0;  // position of the first candidate; a window hides those before it
  Matrix scores;               // [slots, candidates]
  std::vector<float> score;    // [candidates] what the method ranks
  std::vector<std::int32_t> winner;  // [candidates] slot of the largest score
  std::vector<std::uint8_t> kept;    // [candidates]
  std::optional<float> cut;  // the least score that was kept; none where nothing is left out
  std::optional<trace::DenseReason> dense_reason;  // then all are kept

  std::int64_t num_keys() const { return static_cast<std::int64_t>(score.size()); }
  std::int64_t num_slots() const { return static_cast<std::int64_t>(queries.size()); }
  std::int32_t position(std::int64_t key) const {
    return first_key + static_cast<std::int32_t>(key);
  }
};

// `replay` holds the cell of `spec`, a resolved method with slots (Selector::slots). Throws Error{Input} for
// a place outside the trace, for another method, and for more than 2^26 scores.
SlotScores slot_scores(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const replay::ReplayResult& replay, int layer, int chunk, int q_head,
                       const WorkContext& context);

}  // namespace kvloupe::analysis
