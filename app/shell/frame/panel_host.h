// The docked panels: which are open in each workspace of the window, and that one that fails takes no
// other along. A view can be open in several workspaces; it is one panel, and remembers what it shows. A
// copy of a view ("kv_map#2") is a panel of its own.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"
#include "app/shell/frame/dock_layout.h"
#include "app/shell/frame/layout.h"
#include "app/shell/frame/view_lock.h"
#include "app/shell/frame/window_steps.h"
#include "app/shell/windows/messages.h"
#include "app/state/perspectives.h"
#include "app/state/selection.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class PanelHost {
 public:
  PanelHost(state::Workspace& workspace, Messages& messages, WindowSteps& steps);

  // A window that is no view but docks beside them; `draw` fills it. Before the first frame.
  void add_window(const std::string& name, std::function<void()> draw);

  void draw(const figure::GuiContext& gui);
  const state::Perspective& now() const;  // the workspace shown
  // The context menu of a panel's tab, drawn inside it.
  std::function<void(const state::ViewInfo&)> context_menu;
  // Acts on what this view or copy shows, which one that is locked does not have from the selection.
  void as_seen(const std::string& id, const std::function<void(const state::ViewInfo&)>& act);

  // A view by its id, or a window by its name. In the workspace shown where it lies there, else the
  // window goes to the workspace where it lives. Before a trace is there: once one is.
  void show(const std::string& id);
  // In the workspace shown. One that was not open lies beside the other, where that is named; that it
  // was opened is a step that can be taken back.
  void open_here(const std::string& id, const std::string& beside = "");
  void search(const std::string& id);         // shows it, with the keyboard in its search
  bool is_open(const std::string& id) const;  // there
  // Drawn in the last frame, not behind another tab.
  bool visible(const std::string& id) const;
  // What ImGui calls its window in the workspace shown: "###kv_map@kept".
  std::string window_of(const std::string& id) const;

  // One view over all of the others, with nothing beside it; the one in front where none is named. It
  // follows what show() asks for, and the workspace.
  void fill(const std::string& id = "");
  void unfill() { filled_.clear(); }
  bool fills() const { return !filled_.empty(); }

  // Opens what was closed last, a view in the workspace where that was, or a trace as it was shown.
  void reopen();
  bool can_reopen() const;
  void note_closed_trace(const state::ViewState& was);

  // The view a second time, beside the first one where there is room; a step that can be taken back, as
  // what follows.
  void duplicate(const std::string& id);
  // To the place and the methods that it shows now; unlocked it follows the selection again.
  void lock(const std::string& id);
  void unlock(const std::string& id);
  bool is_locked(const std::string& id) const;
  void tear_off(const std::string& id);
  void dock_again(const std::string& id);

  // The workspace shown, as it is arranged.
  Layout layout() const;
  void choose_layout(const Layout& layout);
  void reset_layout();  // of the workspace shown

  // What the user closed, and opened, as "kv_map@kept".
  std::vector<std::string> closed() const { return chosen(false); }
  std::vector<std::string> opened() const { return chosen(true); }
  // Earlier versions had one layout: an id alone is closed everywhere, and opened where it lives.
  void set_open(const std::vector<std::string>& ids, bool is_open);
  std::map<std::string, state::ViewState> locks() const;  // by view
  void set_locks(const std::map<std::string, state::ViewState>& locks);
  // Panels begin anew, with nothing that they remembered of a closed trace.
  void forget();

 private:
  // A window learns in its first frame which tab is its own; the tabs of a new layout are there one
  // frame later.
  static constexpr int kFramesToFocus = 3;

  struct Source {
    std::string id, title;
    const state::ViewInfo* view = nullptr;  // null: a window added
    std::unique_ptr<panels::Panel> panel;
    std::function<void()> draw;
    ViewLock lock;
  };
  // A source in a workspace.
  struct Window {
    std::size_t source = 0;
    const state::Perspective* perspective = nullptr;
    std::string key, name;       // "kv_map@kept", and for ImGui with its title
    std::optional<bool> chosen;  // open or closed by the user; empty: as at first
    bool visible = false;
    bool docked = false;
    unsigned last_dock = 0;  // where it lay before it was torn off
    int frames_to_focus = 0;
    // What was thrown, until the trace or method changes or the user asks again.
    std::string problem, problem_key;
  };

  // Windows by their keys that were closed together, or a trace.
  struct Closing {
    std::vector<std::string> keys;
    std::optional<state::ViewState> trace;
  };

  Source& add_source(const std::string& id, const std::string& title, const state::ViewInfo* view,
                     std::function<void()> draw);
  Source* find_source(const std::string& id);
  // Of a copy that was not there yet, too; null for what names neither a view nor a copy.
  Source* source_of(const std::string& id);
  std::vector<Window*> windows_of(const state::Perspective& perspective);
  void follow_selection();
  void start_search();
  void layout_ui();
  // The windows of a kept layout lie in its docks a frame after they are first shown.
  void follow_room(bool has_windows);
  bool is_first_layout(const DockTree& docks);
  std::vector<DockedView> views_of_first_layout(WindowForm form, bool only_open);
  void build_docks(const DockTree& docks);
  enum class TornOffViews { Stay, DockAgain };
  void build_layout(TornOffViews torn_off);
  void build(const Layout& layout);
  void apply(const Layout& layout);
  void take_chosen_layout();
  void set_lock(const std::string& id, const std::optional<state::ViewState>& words);
  void change_lock(const std::string& id, const std::optional<state::ViewState>& words);
  void open_keys(const std::vector<std::string>& keys);
  void close_keys(const std::vector<std::string>& keys);
  void push_opened(const std::vector<std::string>& keys);  // as a step
  void note_closed(const std::vector<Window*>& closed);
  void note_closing(Closing closing);
  bool is_undone(const Closing& closing) const;  // all of it is open again
  bool is_free(const std::string& id) const;     // open in no workspace
  void dock_beside_ui();
  unsigned dock_for(const Window& window) const;
  void front_own_views();
  void order_tabs();
  void window_ui(Window& window, const figure::GuiContext& gui);
  Window& window_in_front();
  void filled_ui(const figure::GuiContext& gui);
  void point_in(const std::string& source, bool explained);
  void menu_ui(Window& window);
  void contents_ui(Window& window, state::Sight* sight, const figure::GuiContext& gui);
  // Draws, unless that failed before in this place; false where there is a problem to show.
  bool draw_guarded(Window& window, const std::function<void()>& draw);
  bool is_open(const Window& window) const;
  Window* find(const std::string& id, const state::Perspective& perspective);
  const Window* find(const std::string& id, const state::Perspective& perspective) const;
  void choose(Window& window, bool open);
  void bring_up(Window& window);
  std::vector<std::string> chosen(bool open) const;

  state::Workspace& workspace_;
  Messages& messages_;
  WindowSteps& steps_;
  std::deque<Source> sources_;
  std::deque<Window> windows_;
  const state::Perspective* shown_;  // in the last frame
  std::vector<const state::Perspective*> laid_out_;
  std::map<const state::Perspective*, Room> rooms_;  // that the docks were made for
  std::map<const state::Perspective*, std::vector<TornOff>> torn_off_;  // shares of that room
  const state::Perspective* shown_before_ = nullptr;  // in the last frame, of a trace or of results
  std::vector<std::string> own_views_;  // of the method whose first was brought to the front
  int frames_to_order_ = 0;             // until their tabs are there
  std::string docks_again_;             // of a view: the docks are laid out anew with it
  std::string waiting_;                 // to be shown once there is a trace
  std::string to_search_;               // id of what gets the keyboard in its search
  std::vector<Closing> closings_;       // the last at the end
  bool reset_layout_ = false;
  std::optional<Layout> to_build_, chosen_layout_;
  int chosen_frames_ = 0;  // until the latter is taken
  std::string filled_;     // id of what fills the window
  const state::Perspective* filled_in_ = nullptr;
  std::string opened_beside_,
      beside_;  // names of windows: one that opens is to lie beside the other
};

}  // namespace kvloupe::shell
