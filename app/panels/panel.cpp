// The panels of the views in app/state/view_list.h.
#include "app/panels/panel.h"
#include "app/panels/view_frame.h"
#include "core/base/error.h"

namespace kvloupe::panels {

#define KVLOUPE_DECLARE(id) std::unique_ptr<Panel> make_##id##_panel();
KVLOUPE_VIEWS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

void Panel::draw(DrawContext& context) {
  if (can_draw(context)) draw_trace(context);
}

bool Panel::can_draw(DrawContext& context) { return trace_ready_ui(context); }

std::unique_ptr<Panel> make_panel(const std::string& view_id) {
#define KVLOUPE_MAKE(id) \
  if (view_id == #id) return make_##id##_panel();
  KVLOUPE_VIEWS(KVLOUPE_MAKE)
#undef KVLOUPE_MAKE
  fail_check("a view of the list", __FILE__, __LINE__);
}

}  // namespace kvloupe::panels
