// The Explore workspace: menus, transport bar, docked panels, palette and dialogs over one
// Workspace. It knows Dear ImGui but neither the window system nor OpenGL, so tests and benchmarks
// drive the same thing.
#pragma once

#include "app/figure/gui_context.h"
#include "app/panels/panel.h"
#include "app/shell/command_list.h"
#include "app/shell/file_dialog.h"
#include "app/shell/method_editor.h"
#include "app/shell/settings.h"
#include "app/state/workspace.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class Explorer {
 public:
  Explorer(state::Workspace& workspace, figure::GuiContext& gui, Settings settings);
  ~Explorer();

  // Everything of one frame, between NewFrame and Render.
  void frame();
  // Between frames: applies what needs a new style or new fonts.
  void before_frame();
  bool wants_quit() const { return quit_; }
  // Something on screen moves by itself: draw the next frame soon.
  bool animating() const;
  const Settings& settings() const { return settings_; }
  void set_window_size(int width, int height);
  void set_content_scale(float scale);
  const std::vector<Command>& commands() const { return commands_; }
  bool run_command(const std::string& id);  // false: unknown or disabled

  bool playing() const { return playing_; }
  void show_view(const std::string& id);
  // Panels drawn in the last frame: how often a panel has been drawn with a result of its own.
  bool panel_visible(const std::string& id) const;

 private:
  struct OpenPanel {
    const panels::PanelInfo* info = nullptr;
    std::unique_ptr<panels::Panel> panel;
    bool open = true;
    bool visible = false;
    bool docked = false;
    int frames_to_focus = 0;
  };
  struct Toast {
    std::string text;
    bool is_error = false;
    double until = 0;
  };

  // explorer.cpp
  void layout_ui();
  void build_default_layout(ImGuiID dockspace);
  void panels_ui();
  void status_ui();
  void toasts_ui();
  void welcome_ui();
  void tick_playback();
  void say(const std::string& text, bool is_error);
  // explorer_menus.cpp
  void make_commands();
  void add_view_commands();
  void menu_ui();
  void tabs_ui();
  void palette_ui();
  void shortcut_sheet_ui();
  void goto_ui();
  void open_dialog();
  void export_dialog(const panels::PanelInfo& info, panels::Format format);
  void export_to(const panels::PanelInfo& info, panels::Format format, const std::string& file);
  std::string export_arguments(const panels::PanelInfo& info) const;
  void change_scale(float factor);
  // explorer_bars.cpp
  void transport_ui();
  void place_ui();
  void runs_ui();

  state::Workspace& workspace_;
  figure::GuiContext& gui_;
  Settings settings_;
  float content_scale_ = 1.0F;
  bool style_changed_ = true;
  std::vector<OpenPanel> panels_;
  std::vector<Command> commands_;
  std::vector<Toast> toasts_;
  FileDialog files_;
  std::vector<std::string> recent_;
  bool quit_ = false;
  bool reset_layout_ = false;
  bool runs_open_ = true;
  bool runs_docked_ = false;
  int fonts_for_tab_ = -1;

  bool playing_ = false;
  bool loop_ = true;
  double last_step_ = 0;
  float chunks_per_second_ = 4.0F;

  bool palette_open_ = false, sheet_open_ = false, goto_open_ = false;
  std::string palette_query_, goto_text_, goto_problem_;
  int palette_index_ = 0;
  MethodEditor methods_;
};

}  // namespace kvloupe::shell
