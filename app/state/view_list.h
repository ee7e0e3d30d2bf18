// The list of views, in the order of menus. A new view is one line here: its question file defines
// `ViewInfo <id>_view()`, its panel file `std::unique_ptr<Panel> make_<id>_panel()`.
#pragma once

#include "app/state/view.h"

#include <string>
#include <vector>

#define KVLOUPE_VIEWS(X) \
  X(kv_map)              \
  X(selected_vs_true)    \
  X(aqua_lanes)          \
  X(block_tables)        \
  X(quest_pages)

namespace kvloupe::state {

const std::vector<ViewInfo>& views();
const ViewInfo* find_view(const std::string& id);

}  // namespace kvloupe::state
