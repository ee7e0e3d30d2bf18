// Over which cells several methods are averaged: means over different cells do not compare.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace kvloupe::replay {

enum class CellChoice {
  Own,     // where the method is not dense itself
  Common,  // where none of the methods compared is dense, `dense` itself not asked
};

// (layer, chunk).
using CellSet = std::set<std::pair<int, int>>;

// Where each of several methods is not dense; empty for one that chooses nowhere and is not asked.
using CellSets = std::vector<std::optional<CellSet>>;

// Where none of them is dense. Nowhere, if none is asked.
CellSet common_cells(const CellSets& of_methods);

// Whose cells are not those of most; of two as common ones the larger set counts.
std::vector<bool> differ_from_most(const CellSets& of_methods);

}  // namespace kvloupe::replay
