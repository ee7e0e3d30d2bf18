// The colours of the dots of a head's geometry, the same in plots and legends.
#pragma once

#include "app/panels/fate_marks.h"
#include "app/panels/query_scatter.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::panels {

using Geometry = state::Result<state::GeometryQuestion>;

ImU32 color_of_query(const widgets::Palette& palette, const Geometry& result, std::size_t query);
ImU32 color_of_key(const widgets::Palette& palette, const Geometry& result, std::size_t key);
inline constexpr double kDecades = 3;  // that the colours of attention span, up to the largest

// Where the fates are known.
state::KeyFate fate_of(const Geometry& result, std::int32_t key);

}  // namespace kvloupe::panels
