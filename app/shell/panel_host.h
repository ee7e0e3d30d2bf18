// The docked panels: which are open, where they lie, and that one that fails takes no other along.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"
#include "app/shell/messages.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::shell {

class PanelHost {
 public:
  explicit PanelHost(Messages& messages);

  // Windows that are no views but dock beside them draw themselves: `draw` makes the window of this
  // name and may close it. One that is not `open` waits until it is shown. Before the first frame.
  void add_window(const std::string& name, state::Dock dock, bool open,
                  std::function<void(bool* open)> draw);

  void draw(state::Workspace& workspace, const figure::GuiContext& gui);
  // The context menu of a panel's tab, drawn inside it.
  std::function<void(const state::ViewInfo&)> context_menu;

  void show(const std::string& id);  // a view's id, or the name of a window
  bool is_open(const std::string& id) const;
  // Ids of those that are not as at first: open ones closed by the user, waiting ones shown.
  std::vector<std::string> closed() const;
  std::vector<std::string> opened() const;
  void set_open(const std::vector<std::string>& ids, bool is_open);
  void reset_layout() { reset_layout_ = true; }
  // Panels begin anew, with nothing that they remembered of a closed trace.
  void forget();
  // Drawn in the last frame, not behind another tab.
  bool visible(const std::string& id) const;

 private:
  struct Open {
    const state::ViewInfo* view = nullptr;  // null: a window added
    std::string id, window;
    state::Dock dock = state::Dock::Bottom;
    std::unique_ptr<panels::Panel> panel;
    std::function<void(bool* open)> draw;
    bool open = true, open_at_first = true;
    bool visible = false;
    bool docked = false;
    int frames_to_focus = 0;
    std::string
        problem;  // what was thrown, until the trace or method changes or the user asks again
    std::string problem_key;
  };

  void layout_ui();
  void build_layout(unsigned dockspace);
  void window_ui(Open& open, state::Workspace& workspace, const figure::GuiContext& gui);
  void panel_ui(Open& open, state::Workspace& workspace, const figure::GuiContext& gui);
  // Draws, unless that failed before in this place; false where there is a problem to show.
  bool draw_guarded(Open& open, const state::Workspace& workspace,
                    const std::function<void()>& draw);

  Messages& messages_;
  std::vector<Open> panels_;
  bool reset_layout_ = false;
};

}  // namespace kvloupe::shell
