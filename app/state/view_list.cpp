#include "app/state/view_list.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

const ViewInfo& view_named(const std::string& id) {
  if (const ViewInfo* view = find_view(id)) return *view;
  std::vector<std::string> known;
  for (const ViewInfo& view : views()) known.push_back(view.id);
  throw usage_error(fmt::format("unknown view '{}'", id), "no view has this id",
                    fmt::format("use one of {}", fmt::join(known, ", ")));
}

}  // namespace kvloupe::state
