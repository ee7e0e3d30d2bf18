#include "core/replay/common_cells.h"

#include <algorithm>
#include <map>

namespace kvloupe::replay {

CellSet common_cells(const CellSets& of_methods) {
  std::optional<CellSet> common;
  for (const auto& cells : of_methods) {
    if (!cells) continue;
    if (!common) common = cells;
    std::erase_if(*common, [&](const auto& place) { return !cells->contains(place); });
  }
  return common.value_or(CellSet());
}

std::vector<bool> differ_from_most(const CellSets& of_methods) {
  std::map<CellSet, int> times;
  for (const auto& cells : of_methods)
    if (cells) ++times[*cells];
  const auto most = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first.size()) < std::pair(b.second, b.first.size());
  });
  std::vector<bool> differs;
  for (const auto& cells : of_methods) differs.push_back(cells && *cells != most->first);
  return differs;
}

}  // namespace kvloupe::replay
