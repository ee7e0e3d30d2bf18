#include "app/state/view_list.h"

namespace kvloupe::state {

#define KVLOUPE_DECLARE(id) ViewInfo id##_view();
KVLOUPE_VIEWS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

const std::vector<ViewInfo>& views() {
#define KVLOUPE_CALL(id) id##_view(),
  static const std::vector<ViewInfo> all = {KVLOUPE_VIEWS(KVLOUPE_CALL)};
#undef KVLOUPE_CALL
  return all;
}

const ViewInfo* find_view(const std::string& id) {
  for (const ViewInfo& view : views())
    if (view.id == id) return &view;
  return nullptr;
}

}  // namespace kvloupe::state
