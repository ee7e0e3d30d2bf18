// A panel draws a view from the workspace, in the window and in exported figures alike. It computes
// nothing: numbers, tables and arrays stand beside the view's question (app/state/questions).
#pragma once

#include "app/state/view_list.h"
#include "app/state/workspace.h"

#include <memory>
#include <string>

namespace kvloupe::widgets {
struct Palette;
}

namespace kvloupe::panels {

struct DrawContext {
  state::Workspace& workspace;
  const widgets::Palette& palette;
  bool figure = false;   // an exported figure: it carries its own title and caption
  float least_plot = 0;  // pixels: a figure's page grows until its plots are so high
};

class Panel {
 public:
  virtual ~Panel() = default;
  // Says so where what it shows is not ready.
  void draw(DrawContext& context);
  // The next frame puts the keyboard into the panel's search; nothing where it has none.
  virtual void start_search() {}

 protected:
  // Whether there is what it shows; else it was said why not.
  virtual bool can_draw(DrawContext& context);
  virtual void draw_trace(DrawContext& context) = 0;
};

// The panel of a view of the list.
std::unique_ptr<Panel> make_panel(const std::string& view_id);

}  // namespace kvloupe::panels
