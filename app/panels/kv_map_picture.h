// The pixels of a KV map and of the difference of two: rows are chunks, columns keys, and no single
// kept key is lost where many share a pixel.
#pragma once

#include "app/state/questions/kept/kv_difference.h"
#include "app/widgets/map_texture.h"
#include "app/widgets/palette.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kvloupe::panels {

// With a mark at the foot of the chunk after which a key was evicted.
void fill_kv_map(const widgets::Palette& palette, const state::KvMapQuestion::Answer& answer,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels);

// `true_keys` have a mark at the head of their row; null: none. Where keys are wide enough to be
// outlined one by one the caller does that.
void fill_kv_difference(const widgets::Palette& palette,
                        const state::KvDifferenceQuestion::Answer& answer,
                        const state::TrueKeysQuestion::Answer* true_keys,
                        const widgets::MapWindow& window, std::vector<ImU32>& pixels);

// One pixel of several keys, of which so many are kept by whom.
using KeptByCounts = std::array<std::int32_t, analysis::kNumKeptBy>;
ImU32 color_of_keys(const widgets::Palette& palette, const KeptByCounts& counts);

}  // namespace kvloupe::panels
