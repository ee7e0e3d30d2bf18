// The list of views, in the order of menus. A new view is one line here: its question file defines
// `ViewInfo <id>_view()`, its panel file `std::unique_ptr<Panel> make_<id>_panel()`.
#pragma once

#include "app/state/view.h"

#include <string>
#include <vector>

#define KVLOUPE_VIEWS(X) \
  X(attention_map)       \
  X(kv_map)              \
  X(layer_head_overview) \
  X(selected_vs_true)    \
  X(miss_inspector)      \
  X(worst_misses)        \
  X(head_merge)          \
  X(token_strip)         \
  X(query_geometry)      \
  X(query_relevance)     \
  X(slot_scores)         \
  X(heavy_tail)          \
  X(aqua_lanes)          \
  X(block_tables)        \
  X(received_rankings)   \
  X(quest_pages)         \
  X(budget_sweep)        \
  X(method_compare)      \
  X(method_diff)         \
  X(latency)             \
  X(decode_drift)        \
  X(trace_info)          \
  X(task_scores)         \
  X(needle_grid)

namespace kvloupe::state {

const std::vector<ViewInfo>& views();
const ViewInfo* find_view(const std::string& id);
const ViewInfo& view_named(const std::string& id);  // throws Error{Usage}

}  // namespace kvloupe::state
