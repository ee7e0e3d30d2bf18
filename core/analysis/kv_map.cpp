#include "core/analysis/kv_map.h"

#include "core/base/error.h"

#include <algorithm>

namespace kvloupe::analysis {
namespace {

// Positions below this are sinks, by the method's own parameter.
std::int64_t sink_tokens_of(const std::string& method) {
  try {
    const auto spec = selection::MethodSpec::parse(method);
    return spec.has("sink_tokens") ? spec.integer("sink_tokens") : 0;
  } catch (const Error&) {
    return 0;  // a recorded run of a method that this version does not know
  }
}

// Marks the kept keys. A row says how many of them were kept by rule: those at the start are sinks,
// the others are the newest.
void mark_kept(const replay::ReplayRow& row, std::int64_t sink_tokens, std::int32_t past_len,
               KeyState* states) {
  std::int64_t sinks = 0;
  const auto past_end = std::lower_bound(row.selected.begin(), row.selected.end(), past_len);
  const std::int64_t kept = past_end - row.selected.begin();
  for (std::int64_t i = 0; i < kept; ++i) {
    const bool sink = row.selected[i] < sink_tokens && sinks < row.forced;
    sinks += sink;
    states[row.selected[i]] = sink ? KeyState::Sink : KeyState::Kept;
  }
  for (std::int64_t i = kept - 1; i >= std::max(sinks, kept - (row.forced - sinks)); --i)
    states[row.selected[i]] = KeyState::Recent;
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
  const std::int64_t sink_tokens = sink_tokens_of(result.method);
  map.evict_chunk = deaths_in(result, layer, row);
  const KeyState missing = result.evict_chunk.empty() ? KeyState::Dropped : KeyState::Evicted;
  for (const replay::ReplayCell& cell : result.cells) {
    if (cell.layer != layer || static_cast<std::size_t>(row) >= cell.rows.size()) continue;
    const replay::ReplayRow& kept = cell.rows[static_cast<std::size_t>(row)];
    const std::size_t first = map.states.size();
    map.chunks.push_back(cell.span);
    map.states.resize(first + static_cast<std::size_t>(num_tokens), KeyState::Future);
    KeyState* states = map.states.data() + first;
    std::fill(states, states + cell.span.begin, cell.dense_reason ? KeyState::Dense : missing);
    std::fill(states + cell.span.begin, states + cell.span.end(), KeyState::Current);
    if (!cell.dense_reason) mark_kept(kept, sink_tokens, cell.span.begin, states);
    map.kept.push_back(static_cast<std::int32_t>(
        std::lower_bound(kept.selected.begin(), kept.selected.end(), cell.span.begin) -
        kept.selected.begin()));
    map.mass_recall.push_back(kept.mass_recall);
  }
  return map;
}

KvMapGrid reduce_kv_map(const KvMap& map, int max_rows, int max_cols) {
  KvMapGrid grid;
  const auto num_chunks = static_cast<std::int64_t>(map.chunks.size());
  grid.rows = static_cast<int>(std::min<std::int64_t>(num_chunks, max_rows));
  grid.cols = std::min(map.num_tokens, max_cols);
  grid.counts.resize(static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.cols));
  for (auto& counts : grid.counts) counts.fill(0);
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t row = chunk * grid.rows / num_chunks;
    for (std::int32_t token = 0; token < map.num_tokens; ++token) {
      const std::int64_t col = static_cast<std::int64_t>(token) * grid.cols / map.num_tokens;
      const auto state = static_cast<std::size_t>(map.at(static_cast<std::size_t>(chunk), token));
      ++grid.counts[static_cast<std::size_t>(row * grid.cols + col)][state];
    }
  }
  return grid;
}

}  // namespace kvloupe::analysis
