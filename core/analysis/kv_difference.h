// Two KV maps of one row, key by key: who kept what.
#pragma once

#include "core/analysis/kv_map.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

// The first bit says A, the second B.
enum class KeptBy : std::uint8_t {
  Neither,
  AOnly,
  BOnly,
  Both,
  NoCandidate,  // not yet in the cache, of the chunk itself, or beyond the layer's window
};
inline constexpr int kNumKeptBy = 5;

// In the past and not gone, by whatever rule.
bool is_kept(KeyState state);
KeptBy kept_by(KeyState a, KeyState b);

struct KvDifference {
  std::vector<trace::ChunkInfo> chunks;
  std::int32_t num_tokens = 0;
  std::vector<KeptBy> cells;                                 // [num_chunks, num_tokens]
  std::vector<std::array<std::int32_t, kNumKeptBy>> counts;  // [num_chunks]

  KeptBy at(std::size_t chunk, std::int32_t token) const;
  std::int32_t count(std::size_t chunk, KeptBy what) const {
    return counts[chunk][static_cast<std::size_t>(what)];
  }
  // Keys that either kept.
  std::int32_t kept(std::size_t chunk) const;
  double jaccard(std::size_t chunk) const;  // 1 where neither kept any
};
// Of maps with the same chunks.
KvDifference difference_of(const KvMap& a, const KvMap& b);

using KvDifferenceGrid = CountGrid<kNumKeptBy>;
KvDifferenceGrid reduce_kv_difference(const KvDifference& difference, int max_rows, int max_cols);

}  // namespace kvloupe::analysis
