#include "app/panels/box_outline.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

// The corners of the outline, one after the other.
std::vector<ImVec2> outline_of(std::vector<ImVec2> points) {
  const auto turns_in = [](ImVec2 a, ImVec2 b, ImVec2 c) {
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x) <= 0;
  };
  std::ranges::sort(points, [](ImVec2 a, ImVec2 b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<ImVec2> outline;
  for (const bool back : {false, true}) {  // below all points, then above them
    const std::size_t first = outline.size();
    for (const ImVec2& point : points) {
      while (outline.size() >= first + 2 &&
             turns_in(outline[outline.size() - 2], outline.back(), point))
        outline.pop_back();
      outline.push_back(point);
    }
    outline.pop_back();  // begins the other half
    if (!back) std::ranges::reverse(points);
  }
  return outline;
}

}  // namespace

std::vector<Circle> beside_outline(const std::vector<ImVec2>& corners) {
  const std::vector<ImVec2> outline = outline_of(corners);
  const float radius = widgets::em(0.8F);
  std::vector<Circle> places;
  for (std::size_t i = 0; i < outline.size(); ++i) {
    const ImVec2 a = outline[i], b = outline[(i + 1) % outline.size()];
    const float length = std::hypot(b.x - a.x, b.y - a.y);
    if (!(length > 0)) continue;
    const ImVec2 out((b.y - a.y) / length, (a.x - b.x) / length);
    for (float along = radius; along < length; along += 2 * radius)
      for (const float away : {widgets::em(0.8F), widgets::em(2.3F)})
        places.push_back({{a.x + (b.x - a.x) * along / length + out.x * away,
                           a.y + (b.y - a.y) * along / length + out.y * away},
                          radius});
  }
  return places;
}

}  // namespace kvloupe::panels
