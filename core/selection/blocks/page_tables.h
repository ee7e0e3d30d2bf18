// Block tables for paged attention from what a page or block method selected.
#pragma once

#include "core/attention/block_tables.h"
#include "core/selection/selector.h"

#include <optional>

namespace kvloupe::selection {

// The pages of every row, where the rows are whole pages of the past; nullopt where they are single
// keys (other methods, or MInference's stripes). A page that straddles the chunk's begin is listed
// if its past tokens are selected. Rows of a dense cell are lists of all pages.
std::optional<attention::BlockTables> page_tables(const MethodSpec& spec, const RowLayout& layout,
                                                  const Cell& cell, const CellSelection& selection);

}  // namespace kvloupe::selection
