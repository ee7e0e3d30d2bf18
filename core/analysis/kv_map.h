// Which keys a row kept, chunk by chunk: rows chunks, columns keys.
#pragma once

#include "core/analysis/count_grid.h"
#include "core/replay/replay.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

enum class KeyState : std::uint8_t {
  Future,   // not yet in the cache
  Dropped,  // in the past, not selected for this chunk (visibility)
  Evicted,  // gone for good (eviction)
  Kept,     // by score, or by a rule of neither end
  Sink,     // kept by rule at the start
  Recent,   // kept by rule at the end of the past
  Current,  // of the chunk itself
  Dense,    // kept because the whole past fits or the method does not select here
  Hidden,   // in the past, beyond the window of the layer: no candidate
};
inline constexpr int kNumKeyStates = 9;

struct KvMap {
  std::vector<trace::ChunkInfo> chunks;
  std::int32_t num_tokens = 0;
  std::vector<KeyState> states;     // [num_chunks, num_tokens]
  std::vector<std::int32_t> kept;   // [num_chunks] past keys kept, or kUnknown
  std::vector<double> mass_recall;  // [num_chunks] NaN where it was not measured
  // Eviction: [num_tokens], the chunk after which the key died, trace::kAlive if never. Else empty.
  std::vector<std::uint16_t> evict_chunk;

  static constexpr std::int32_t kUnknown = -1;
  // False for chunks after the last one of which anything is known, and for those between whose queries were
  // not recorded: all their keys are Future.
  bool knows(std::size_t chunk) const { return chunk < kept.size() && kept[chunk] != kUnknown; }
  KeyState at(std::size_t chunk, std::int32_t token) const;
  // The chunk after which the key died; nothing if it never did.
  std::optional<int> death_of(std::int32_t token) const;
};

// The chunks after which the keys of a row died ([T], trace::kAlive if never); empty unless the
// method evicts.
std::vector<std::uint16_t> deaths_in(const replay::ReplayResult& result, int layer, int row);

KvMap build_kv_map(const replay::ReplayResult& result, int layer, int row, std::int32_t num_tokens);

using KvMapGrid = CountGrid<kNumKeyStates>;
KvMapGrid reduce_kv_map(const KvMap& map, int max_rows, int max_cols);

}  // namespace kvloupe::analysis
