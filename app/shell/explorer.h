// The window's inside: menus, transport bar, rail, docked panels, palette and dialogs over one
// Workspace. It knows Dear ImGui but neither the window system nor OpenGL, so tests and benchmarks
// drive the same thing.
#pragma once

#include "app/figure/gui_context.h"
#include "app/shell/bars/rail.h"
#include "app/shell/bars/text_line.h"
#include "app/shell/bars/tour_column.h"
#include "app/shell/bars/transport.h"
#include "app/shell/commands/command_list.h"
#include "app/shell/frame/desktop_theme.h"
#include "app/shell/frame/panel_host.h"
#include "app/shell/frame/window_steps.h"
#include "app/shell/methods/method_card.h"
#include "app/shell/methods/runs_window.h"
#include "app/shell/new_trace/capture_window.h"
#include "app/shell/saved/settings.h"
#include "app/shell/windows/closing_question.h"
#include "app/shell/windows/color_sheet.h"
#include "app/shell/windows/cursor_menu.h"
#include "app/shell/windows/dialogs.h"
#include "app/shell/windows/dropped_files.h"
#include "app/shell/windows/exporter.h"
#include "app/shell/windows/figure_sheet.h"
#include "app/shell/windows/file_dialog.h"
#include "app/shell/windows/layouts.h"
#include "app/shell/windows/memory_window.h"
#include "app/shell/windows/messages.h"
#include "app/shell/windows/notes_window.h"
#include "app/shell/windows/shortcuts_window.h"
#include "app/shell/windows/speaker_window.h"
#include "app/state/workspace.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::shell {

class Explorer {
 public:
  Explorer(state::Workspace& workspace, figure::GuiContext& gui, Settings settings);
  ~Explorer();

  // Everything of one frame, between NewFrame and Render. Throws nothing.
  void frame();
  // Between frames: applies what needs a new style or new fonts.
  void before_frame();
  bool wants_quit() const { return quit_; }
  // Closes the window, at once or after a question: where something under way would be lost.
  void ask_to_quit();
  // Something on screen moves by itself: draw the next frame soon.
  bool animating() const;
  Settings settings() const;  // as they are to be at the next start
  void set_window_size(int width, int height);
  void set_content_scale(float scale);

  const std::vector<Command>& commands() const { return commands_; }
  bool run_command(const std::string& id);  // false: unknown or disabled
  // Called while the trace that is about to be closed is still there.
  std::function<void()> before_close;
  bool playing() const { return transport_.playing(); }
  PanelHost& panels() { return panels_; }
  Exporter& exporter() { return exporter_; }
  FigureSheet& figure_sheet() { return figure_sheet_; }
  Messages& messages() { return messages_; }
  CaptureWindow& capture() { return capture_; }
  // Files and folders that were dropped on the window together.
  void take_dropped(std::vector<std::string> paths) { dropped_.drop(std::move(paths)); }
  NotesWindow& notes() { return notes_; }
  RunsWindow& runs() { return runs_; }
  const Rail& rail() const { return rail_; }
  const TextLine& text_line() const { return text_line_; }
  Layouts& layouts() { return layouts_; }
  TourColumn& tour() { return tour_; }
  SpeakerWindow& speaker() { return speaker_; }
  bool presenting() const { return presenting_; }  // the window has the screen

 private:
  void draw_all();
  void bars_ui();
  void keyboard();
  void stop_measuring_on_input();
  void undo();
  void redo();
  void close_trace();
  std::string under_way();
  void menu_ui();
  void commands_ui(const std::string& menu);
  void status_ui();
  void note_recent(const std::string& path);
  void open_dialog();
  void new_capture();
  void new_drift_capture();  // of the method shown
  void set_scale(float scale);
  // One view alone, larger, without the bars.
  void present(bool on);
  void step_presented(int by);  // to the next page of the tour, note or chunk
  Slide slide();
  void presenter_ui();
  void save_notes_as_tour();
  void set_theme(widgets::ThemeChoice theme);
  widgets::ThemeKind theme() const;
  void follow_desktop();
  // explorer_commands.cpp
  DroppedFiles::Takers takers_of_dropped();
  void make_commands();
  void use_keys();
  void add_file_commands();
  void add_edit_commands();
  void add_presenter_commands();
  void add_go_commands();
  void add_method_commands();
  void add_view_commands();
  void add_look_commands();
  void add_help_commands();

  state::Workspace& workspace_;
  figure::GuiContext& gui_;
  Settings settings_;
  float content_scale_ = 1.0F;
  bool style_changed_ = true;
  DesktopTheme desktop_theme_;
  bool was_away_ = false;  // another window had the keyboard in the last frame
  bool quit_ = false;
  static constexpr float kPresented = 1.35F;  // larger than the window's own size
  bool presenting_ = false;
  SpeakerWindow speaker_;
  bool popup_was_open_ = false;  // when the last frame ended
  std::string fonts_for_;        // key of the trace
  std::vector<std::string> recent_;
  std::vector<Command> commands_;

  Messages messages_;
  WindowSteps steps_;
  PanelHost panels_;
  Transport transport_;
  Rail rail_;
  TextLine text_line_;
  TourColumn tour_;
  MethodCard method_card_;
  RunsWindow runs_;
  NotesWindow notes_;
  MemoryCharge glyphs_;
  FileDialog files_;
  Exporter exporter_;
  FigureSheet figure_sheet_;
  Layouts layouts_;
  ClosingQuestion closing_;
  CaptureWindow capture_;
  CursorMenu cursor_menu_;
  DroppedFiles dropped_;
  CommandPalette palette_;
  ShortcutsWindow sheet_;
  GotoDialog goto_;
  ColorSheet colors_;
};

}  // namespace kvloupe::shell
