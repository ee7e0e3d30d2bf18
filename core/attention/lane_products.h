// Products of query rows that use a few lanes each with keys that are kept by lane.
// Keys lie in tiles of kLaneTileKeys of them, and inside a tile lane by lane:
//   [tile][lane][kLaneTileKeys]
// A row reads the lanes that it uses and no others. In one run a lane for the whole text they would
// lie pages apart, often in the same sets of a cache; a tile of all lanes is in its first level.
#pragma once

#include <cstdint>

namespace kvloupe::attention {

inline constexpr std::int64_t kLaneTileKeys = 64;
inline std::int64_t num_lane_tiles(std::int64_t num_keys) {
  return (num_keys + kLaneTileKeys - 1) / kLaneTileKeys;
}

// Rows that use `kept` lanes each: row r has values[r, i] in lane lanes[r, i].
struct LaneRows {
  const float* values = nullptr;        // [rows, kept]
  const std::int32_t* lanes = nullptr;  // [rows, kept], ascending in a row
  std::int64_t kept = 0;
};

// scores[r, j] = scale * sum over i of values[r, i] * (lane lanes[r, i] of key first + j), for
// `count` keys from `first` on, rows of scores `stride` apart. `tiles` are of `num_lanes` lanes. A
// score is summed in the order of the row's lanes, wherever the key lies.
void multiply_lanes(const LaneRows& rows, std::int64_t num_rows, const float* tiles,
                    std::int64_t num_lanes, std::int64_t first, std::int64_t count, float scale,
                    float* scores, std::int64_t stride);

// The numbers of `count` keys, rows [count, num_lanes], to the places of the keys from `first` on.
void store_lanes(const float* rows, std::int64_t count, std::int64_t num_lanes, std::int64_t first,
                 float* tiles);

}  // namespace kvloupe::attention
