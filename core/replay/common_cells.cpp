#include "core/replay/common_cells.h"

#include <algorithm>
#include <map>

namespace kvloupe::replay {

Places common_places(const PlacesOf& of_methods) {
  std::optional<Places> common;
  for (const auto& places : of_methods) {
    if (!places) continue;
    if (!common) common = places;
    std::erase_if(*common, [&](const auto& place) { return !places->contains(place); });
  }
  return common.value_or(Places());
}

std::vector<bool> differ_from_most(const PlacesOf& of_methods) {
  std::map<Places, int> times;
  for (const auto& places : of_methods)
    if (places) ++times[*places];
  const auto most = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first.size()) < std::pair(b.second, b.first.size());
  });
  std::vector<bool> differs;
  for (const auto& places : of_methods) differs.push_back(places && *places != most->first);
  return differs;
}

}  // namespace kvloupe::replay
