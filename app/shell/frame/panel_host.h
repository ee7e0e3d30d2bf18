// The docked panels: which are open in each workspace of the window, and that one that fails takes no
// other along. A view can be open in several workspaces; it is one panel, and remembers what it shows.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"
#include "app/shell/windows/messages.h"
#include "app/state/perspectives.h"
#include "app/state/selection.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class PanelHost {
 public:
  PanelHost(state::Workspace& workspace, Messages& messages);

  // A window that is no view but docks beside them; `draw` fills it. Before the first frame.
  void add_window(const std::string& name, std::function<void()> draw);

  void draw(const figure::GuiContext& gui);
  // The context menu of a panel's tab, drawn inside it.
  std::function<void(const state::ViewInfo&)> context_menu;

  // A view by its id, or a window by its name. In the workspace shown where it lies there, else the
  // window goes to the workspace where it lives. Before a trace is there: once one is.
  void show(const std::string& id);
  void open_here(const std::string& id);      // in the workspace shown
  void search(const std::string& id);         // shows it, with the keyboard in its search
  bool is_open(const std::string& id) const;  // there
  // Drawn in the last frame, not behind another tab.
  bool visible(const std::string& id) const;
  // What ImGui calls its window in the workspace shown: "###kv_map@kept".
  std::string window_of(const std::string& id) const;

  // Opens what was closed last, in the workspace where that was.
  void reopen();
  bool can_reopen() const { return !closings_.empty(); }
  // Nothing has changed of what is shown since the last closing.
  bool closed_since_change() const;

  // What the user closed, and opened, as "kv_map@kept".
  std::vector<std::string> closed() const { return chosen(false); }
  std::vector<std::string> opened() const { return chosen(true); }
  // Earlier versions had one layout: an id alone is closed everywhere, and opened where it lives.
  void set_open(const std::vector<std::string>& ids, bool is_open);
  void reset_layout() { reset_layout_ = true; }  // of the workspace shown
  // Panels begin anew, with nothing that they remembered of a closed trace.
  void forget();

 private:
  struct Source {
    std::string id, title;
    const state::ViewInfo* view = nullptr;  // null: a window added
    std::unique_ptr<panels::Panel> panel;
    std::function<void()> draw;
  };
  // A source in a workspace.
  struct Window {
    std::size_t source = 0;
    const state::Perspective* perspective = nullptr;
    std::string key, name;       // "kv_map@kept", and for ImGui with its title
    std::optional<bool> chosen;  // open or closed by the user; empty: as at first
    bool visible = false;
    bool docked = false;
    int frames_to_focus = 0;
    // What was thrown, until the trace or method changes or the user asks again.
    std::string problem, problem_key;
  };

  void add_source(Source source);
  std::vector<Window*> windows_of(const state::Perspective& perspective);
  void follow_selection();
  void layout_ui();
  void build_layout();
  void front_own_view();
  void window_ui(Window& window, const figure::GuiContext& gui);
  void point_in(const std::string& source, bool explained);
  // Draws, unless that failed before in this place; false where there is a problem to show.
  bool draw_guarded(Window& window, const std::function<void()>& draw);
  const state::Perspective& now() const;
  bool is_open(const Window& window) const;
  Window* find(const std::string& id, const state::Perspective& perspective);
  const Window* find(const std::string& id, const state::Perspective& perspective) const;
  void choose(Window& window, bool open);
  void bring_up(Window& window);
  std::vector<std::string> chosen(bool open) const;

  state::Workspace& workspace_;
  Messages& messages_;
  std::vector<Source> sources_;
  std::deque<Window> windows_;
  const state::Perspective* shown_;  // in the last frame
  std::vector<const state::Perspective*> laid_out_;
  std::string own_view_;  // that was brought to the front
  std::string waiting_;   // to be shown once there is a trace
  // The windows closed in one frame together, and what was shown then.
  struct Closing {
    std::vector<Window*> windows;
    state::Selection at;
  };
  std::vector<Closing> closings_;  // the last one at the end
  bool reset_layout_ = false;
};

}  // namespace kvloupe::shell
