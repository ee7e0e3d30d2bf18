// The mean query of a chunk in the query geometry, and its path over all chunks.
#pragma once

#include "app/panels/geometry_colors.h"

#include <imgui.h>

#include <vector>

namespace kvloupe::panels {

// `means`: where they stand on the screen, one for each of the result's chunks.
void mean_queries_ui(ImDrawList* draw, const widgets::Palette& palette, const Geometry& result,
                     const std::vector<ImVec2>& means);

}  // namespace kvloupe::panels
