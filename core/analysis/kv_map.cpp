#include "core/analysis/kv_map.h"

#include <algorithm>
#include <limits>

namespace kvloupe::analysis {
namespace {

// Marks the kept keys. Of those kept by rule, the ones that lie together from the first position on
// are sinks, and the ones that end the past are recent; where they fill all of it the two cannot be
// told apart. Under eviction the newest keys may have gaps: there they need only follow each other in
// the row.
void mark_kept(const trace::SelectedRow& row, bool evicts, std::int32_t past_len,
               KeyState* states) {
  const auto& kept = row.positions;
  const auto count =
      static_cast<std::size_t>(std::lower_bound(kept.begin(), kept.end(), past_len) - kept.begin());
  const auto is_forced = [&](std::size_t i) {
    return std::binary_search(row.forced.begin(), row.forced.end(), kept[i]);
  };
  std::size_t sinks_end = 0, recent_begin = count;
  while (sinks_end < count && kept[sinks_end] == static_cast<std::int32_t>(sinks_end) &&
         is_forced(sinks_end))
    ++sinks_end;
  if (sinks_end == static_cast<std::size_t>(past_len))
    sinks_end = 0;
  else if (count > 0 && kept[count - 1] == past_len - 1)
    while (recent_begin > sinks_end && is_forced(recent_begin - 1) &&
           (evicts || recent_begin == count || kept[recent_begin - 1] + 1 == kept[recent_begin]))
      --recent_begin;
  for (std::size_t i = 0; i < count; ++i)
    states[kept[i]] = i < sinks_end       ? KeyState::Sink
                      : i >= recent_begin ? KeyState::Recent
                                          : KeyState::Kept;
}

void add_chunks_before(std::size_t end, KvMap& map) {
  map.chunks.resize(end);
  map.states.resize(end * static_cast<std::size_t>(map.num_tokens), KeyState::Future);
  map.kept.resize(end, KvMap::kUnknown);
  map.mass_recall.resize(end, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

KeyState KvMap::at(std::size_t chunk, std::int32_t token) const {
  return states[chunk * static_cast<std::size_t>(num_tokens) + static_cast<std::size_t>(token)];
}

std::optional<int> KvMap::death_of(std::int32_t token) const {
  const auto index = static_cast<std::size_t>(token);
  if (index >= evict_chunk.size() || evict_chunk[index] == trace::kAlive) return std::nullopt;
  return evict_chunk[index];
}

std::vector<std::uint16_t> deaths_in(const replay::ReplayResult& result, int layer, int row) {
  const auto found = std::find(result.layers.begin(), result.layers.end(), layer);
  const auto index = static_cast<std::size_t>(found - result.layers.begin());
  if (index >= result.evict_chunk.size()) return {};
  const auto& rows = result.evict_chunk[index];
  return static_cast<std::size_t>(row) < rows.size() ? rows[static_cast<std::size_t>(row)]
                                                     : std::vector<std::uint16_t>{};
}

KvMap build_kv_map(const replay::ReplayResult& result, int layer, int row,
                   std::int32_t num_tokens) {
  KvMap map;
  map.num_tokens = num_tokens;
  map.evict_chunk = deaths_in(result, layer, row);
  const KeyState missing = result.evict_chunk.empty() ? KeyState::Dropped : KeyState::Evicted;
  for (const replay::ReplayCell& cell : result.cells) {
    if (cell.layer != layer || static_cast<std::size_t>(row) >= cell.rows.size()) continue;
    const trace::SelectedRow& kept = cell.rows[static_cast<std::size_t>(row)];
    const auto chunk = static_cast<std::size_t>(cell.chunk);
    add_chunks_before(chunk + 1, map);
    map.chunks[chunk] = cell.span;
    KeyState* states = map.states.data() + chunk * static_cast<std::size_t>(num_tokens);
    std::fill(states, states + cell.first_candidate, KeyState::Hidden);
    std::fill(states + cell.first_candidate, states + cell.span.begin,
              cell.dense_reason ? KeyState::Dense : missing);
    std::fill(states + cell.span.begin, states + cell.span.end(), KeyState::Current);
    if (!cell.dense_reason) mark_kept(kept, !result.evict_chunk.empty(), cell.span.begin, states);
    map.kept[chunk] = static_cast<std::int32_t>(
        std::lower_bound(kept.positions.begin(), kept.positions.end(), cell.span.begin) -
        kept.positions.begin());
    if (!cell.metrics.empty())
      map.mass_recall[chunk] = cell.metrics[static_cast<std::size_t>(row)].mass_recall;
  }
  return map;
}

KvMapGrid reduce_kv_map(const KvMap& map, int max_rows, int max_cols) {
  return reduced<kNumKeyStates>(map.states, static_cast<std::int64_t>(map.chunks.size()),
                                map.num_tokens, max_rows, max_cols);
}

}  // namespace kvloupe::analysis
