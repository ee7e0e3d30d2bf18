// How keys rank by the attention that they receive from a window of queries: by its mean, which
// finds what every query wants, and by its maximum, which finds what a few queries want very much
// (CompactAttention, figure 2a). The paper draws both and gives no rule for "global" and
// "query-specific"; here, with k = ceil(5 % of the keys):
//   global          among the k best by mean
//   query-specific  among the k best by maximum, and not global
#pragma once

#include "core/base/cancel.h"
#include "core/session/session.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

// Broken: some query's attention to the key is not a number, it has no rank worth the name.
enum class KeyKind : std::uint8_t { Other, Global, QuerySpecific, Broken };
const char* name_of(KeyKind kind);  // "other", "global", "query_specific", "nan"

struct ReceivedRankings {
  static constexpr double kTopShare = 0.05;
  int layer = 0;
  int first_q_head = 0, num_q_heads = 1;
  std::int32_t query_begin = 0, query_end = 0;  // the window
  std::int64_t top = 0;                         // k
  // Of the keys [0, n), over the window's queries and the heads. A query gives 0 to later keys.
  std::vector<float> mean, max;                   // NaN where broken
  std::vector<std::int32_t> mean_rank, max_rank;  // 0 is the best; equals by position, NaN last
  std::vector<KeyKind> kind;

  std::int64_t num_keys() const { return static_cast<std::int64_t>(mean.size()); }
};

// Ranks and kinds of what was received.
ReceivedRankings rank_received(std::vector<float> mean, std::vector<float> max);

// Keys [0, num_keys), as the query heads [first_q_head, first_q_head + num_q_heads) attend to them.
ReceivedRankings received_rankings(const session::TraceSession& session, int layer,
                                   int first_q_head, int num_q_heads, std::int32_t query_begin,
                                   std::int32_t query_end, std::int32_t num_keys,
                                   const WorkContext& context);

// Of the keys of a kind, those that a method selected (ascending positions).
struct KindCount {
  std::int64_t keys = 0, selected = 0;
};
KindCount count_kind(const ReceivedRankings& rankings, KeyKind kind,
                     const std::vector<std::int32_t>& selected);

inline const char* name_of(KeyKind kind) {
  switch (kind) {
    case KeyKind::Other: return "other";
    case KeyKind::Global: return "global";
    case KeyKind::QuerySpecific: return "query_specific";
    case KeyKind::Broken: return "nan";
  }
  return "";
}

inline KindCount count_kind(const ReceivedRankings& rankings, KeyKind kind,
                            const std::vector<std::int32_t>& selected) {
  KindCount count;
  count.keys = std::count(rankings.kind.begin(), rankings.kind.end(), kind);
  for (const std::int32_t position : selected)
    if (position < rankings.num_keys() && rankings.kind[static_cast<std::size_t>(position)] == kind)
      ++count.selected;
  return count;
}

}  // namespace kvloupe::analysis
