// One cell, key by key: what the method kept against the keys that attention truly weighs.
#pragma once

#include "core/replay/replay.h"
#include "core/trace/key_set.h"

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

enum class KeyVerdict : std::uint8_t {
  Hit,
  Miss,
  Waste,
  Neither
};  // selected and true; true only; selected only
inline bool is_kept(KeyVerdict verdict) {
  return verdict == KeyVerdict::Hit || verdict == KeyVerdict::Waste;
}

struct KeyRank {
  std::int32_t position = 0;
  double mass = 0;             // M[j]
  std::int32_t true_rank = 0;  // 0 is the largest mass among the candidates
  KeyVerdict verdict = KeyVerdict::Neither;
};

struct SelectedVsTrue {
  int layer = 0;
  int chunk = 0;
  int row = 0;
  std::int64_t first_candidate = 0;  // 0, or where the layer's window begins
  std::int64_t num_candidates = 0;
  std::int64_t hits = 0, misses = 0, wastes = 0;
  double mass_recall = 1, topk_overlap = 1;
  double missed_mass = 0;             // 1 - mass_recall
  std::vector<float> mass;            // [T] M of the row
  std::vector<KeyVerdict> verdict;    // [P or T]
  std::vector<KeyRank> by_true_rank;  // candidates, largest mass first
};

SelectedVsTrue selected_vs_true(const session::TraceSession& session,
                                const replay::ReplayCell& cell, int row, int q_heads_per_row);

// How some keys (a needle's, say) fared in every cell of a replay of one layer.
struct SpanFate {
  int layer = 0;
  int chunk = 0;
  int row = 0;
  std::int32_t kept = 0, total = 0;  // of the keys: selected, among the candidates
  double span_mass = 0;              // share of the candidates' mass on them
  std::int32_t best_true_rank = -1;  // best rank of one of them by mass
};
std::vector<SpanFate> span_fate(const session::TraceSession& session,
                                const replay::ReplayResult& result, const trace::KeySet& keys,
                                const WorkContext& context);

}  // namespace kvloupe::analysis
