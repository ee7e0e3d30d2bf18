// Where the numbers and titles of the axes of a turned box may stand.
#pragma once

#include "app/panels/query_scatter.h"

#include <vector>

namespace kvloupe::panels {

// Circles along the edges of the outline of these points, outside it: which edges have numbers and a title
// depends on how the box is turned.
std::vector<Circle> beside_outline(const std::vector<ImVec2>& corners);

}  // namespace kvloupe::panels
