// What two selections differ in, as `kvloupe diff` and `kvloupe report` say it.
#pragma once

#include "core/replay/diff.h"
#include "core/replay/table.h"

#include <string>
#include <vector>

namespace kvloupe::cli {

// Means over the rows and chunks of each layer.
table::Table layer_means(const replay::Diff& diff);
// The first place where they differ, and its keys; a line or two.
std::string divergence_text(const replay::Diff& diff);
// Ten at most, of the lowest Jaccard first; none that is alike.
std::vector<const replay::DiffRow*> most_different(const replay::Diff& diff);

}  // namespace kvloupe::cli
