// The commands of the window.
#include "app/shell/explorer.h"
#include "app/shell/windows/desktop_dialog.h"
#include "app/state/questions/how_much/latency.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

namespace kvloupe::shell {
namespace {

// Adds commands to one menu, with the condition that they share.
class Adder {
 public:
  Adder(std::vector<Command>& commands, std::string menu, std::function<bool()> enabled = {})
      : commands_(commands), menu_(std::move(menu)), enabled_(std::move(enabled)) {}
  void operator()(std::string id, std::string title, std::vector<ImGuiKeyChord> keys,
                  std::function<void()> run) const {
    commands_.push_back(
        {std::move(id), menu_, std::move(title), keys, std::move(run), enabled_, false, keys});
  }

 private:
  std::vector<Command>& commands_;
  std::string menu_;
  std::function<bool()> enabled_;
};

}  // namespace

void Explorer::make_commands() {
  add_file_commands();
  add_edit_commands();
  add_presenter_commands();
  add_go_commands();
  add_method_commands();
  add_view_commands();
  add_help_commands();
  use_keys();
}

// Menus, the palette and tooltips name the keys that the commands have now.
void Explorer::use_keys() {
  apply_keys(settings_.keys, commands_);
  std::map<std::string, std::string> names;
  for (const Command& command : commands_) names[command.id] = shortcut_text(command);
  widgets::set_key_names(std::move(names));
}

void Explorer::add_file_commands() {
  const Adder add(commands_, "File");
  const Adder with_tab(commands_, "File", [this] { return workspace_.traces.active() != nullptr; });
  add("open", "Open a trace\u2026", {ImGuiMod_Ctrl | ImGuiKey_O}, [this] { open_dialog(); });
  add("capture", "New capture\u2026", {ImGuiMod_Ctrl | ImGuiKey_N}, [this] { new_capture(); });
  add("capture.drift", "New capture of a closed loop and its drift\u2026", {},
      [this] { new_drift_capture(); });
  with_tab("reload", "Reload", {ImGuiKey_F5, ImGuiMod_Ctrl | ImGuiKey_R},
           [this] { workspace_.traces.reload_active(); });
  with_tab("close", "Close the trace", {ImGuiMod_Ctrl | ImGuiKey_W}, [this] { close_trace(); });
  const Adder with_results(commands_, "File", [this] { return workspace_.results.is_open(); });
  with_results("results.reload", "Reload the results", {},
               [this] { workspace_.results.open(std::string(workspace_.results.path())); });
  with_results("results.close", "Close the results", {}, [this] {
    workspace_.results.close();
    panels_.forget();
  });
  for (std::size_t i = 0; i < 9; ++i)
    Adder(commands_, "", [this, i] { return i < recent_.size(); })(
        fmt::format("recent.{}", i + 1), fmt::format("Open recent file {}", i + 1),
        {ImGuiMod_Ctrl | static_cast<ImGuiKey>(ImGuiKey_1 + static_cast<int>(i))},
        [this, i] { workspace_.traces.open(recent_[i]); });
  add("quit", "Quit", {ImGuiMod_Ctrl | ImGuiKey_Q}, [this] { ask_to_quit(); });
  // What is typed in it is there when it is opened again.
  commands_.push_back({"capture.close",
                       "",
                       "Close \u201CNew capture\u201D",
                       {ImGuiKey_Escape},
                       [this] { capture_.close(); },
                       [this] { return capture_.is_open(); },
                       true,
                       {ImGuiKey_Escape}});
  commands_.push_back({"figure.close",
                       "",
                       "Close \u201CFigure\u201D",
                       {ImGuiKey_Escape},
                       [this] { figure_sheet_.close(); },
                       // In a field Escape ends the typing.
                       [this] { return figure_sheet_.is_open() && !ImGui::GetIO().WantTextInput; },
                       true,
                       {ImGuiKey_Escape}});
}

void Explorer::add_edit_commands() {
  state::Cursor& cursor = workspace_.cursor;
  // In a text field these keys are the field's own.
  const auto typing = [] { return ImGui::GetIO().WantTextInput; };
  Adder(commands_, "Edit", [this, &cursor, typing] {
    return (cursor.can_go_back() || steps_.can_go_back()) && !typing();
  })("undo", "Undo", {ImGuiMod_Ctrl | ImGuiKey_Z}, [this] { undo(); });
  Adder(commands_, "Edit",
        [this, &cursor, typing] {
          return (cursor.can_go_forward() || steps_.is_next()) && !typing();
        })("redo", "Redo",
           {ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z, ImGuiMod_Ctrl | ImGuiKey_Y},
           [this] { redo(); });
  Adder(commands_, "Edit", [this] { return workspace_.has_trace(); })(
      "note.add", "Note this place", {ImGuiMod_Ctrl | ImGuiKey_D}, [this] {
        panels_.open_here(state::kNotesWindow);
        notes_.add(workspace_);
      });
  Adder(commands_, "Edit", [this] { return !notes_.notes(workspace_).empty(); })(
      "notes.tour", "Save the notes as a tour\u2026", {}, [this] { save_notes_as_tour(); });
  Adder(commands_, "Edit", [this, typing] { return cursor_menu_.can_copy() && !typing(); })(
      "copy", "Copy what is under the mouse", {ImGuiMod_Ctrl | ImGuiKey_C},
      [this] { cursor_menu_.copy(); });
  Adder(commands_, "Edit", [this, typing] { return workspace_.has_trace() && !typing(); })(
      "link.copy", "Copy the link to what is under the mouse",
      {ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C}, [this] { cursor_menu_.copy_link(); });
}

// Before the others, whose keys they take while one view is alone.
void Explorer::add_presenter_commands() {
  const auto presents = [this] { return presenting_; };
  Adder(commands_, "View", [this] { return workspace_.has_trace(); })(
      "present", "Present", {ImGuiKey_F11}, [this] { present(!presenting_); });
  Adder(commands_, "View", [this] { return workspace_.has_trace() && !presenting_; })(
      "fill", "Fill the window with one view", {ImGuiKey_F10},
      [this] { panels_.fills() ? panels_.unfill() : panels_.fill(); });
  Adder(commands_, "", [this] { return panels_.fills(); })(
      "fill.end", "Back to all views", {ImGuiKey_Escape},
      [this] { presenting_ ? present(false) : panels_.unfill(); });
  Adder(commands_, "View", [this] { return presenting_ && SpeakerWindow::can_open(); })(
      "present.speaker", "The speaker's window", {ImGuiKey_F12}, [this] { speaker_.toggle(); });
  Adder(commands_, "", presents)("present.next", "Next in the presentation",
                                 {ImGuiKey_RightArrow, ImGuiKey_PageDown, ImGuiKey_Space},
                                 [this] { step_presented(1); });
  Adder(commands_, "", presents)("present.previous", "Before it in the presentation",
                                 {ImGuiKey_LeftArrow, ImGuiKey_PageUp},
                                 [this] { step_presented(-1); });
}

void Explorer::add_go_commands() {
  state::Cursor& cursor = workspace_.cursor;
  const auto has_trace = [this] { return workspace_.has_trace(); };
  const Adder add(commands_, "Go", has_trace), hidden(commands_, "", has_trace);
  Adder(commands_, "Go", [&cursor] { return cursor.can_go_back(); })(
      "back", "Back", {ImGuiMod_Ctrl | ImGuiKey_LeftBracket}, [&cursor] { cursor.back(); });
  Adder(commands_, "Go", [&cursor] { return cursor.can_go_forward(); })(
      "forward", "Forward", {ImGuiMod_Ctrl | ImGuiKey_RightBracket},
      [&cursor] { cursor.forward(); });
  add("goto", "Go to\u2026", {ImGuiMod_Ctrl | ImGuiKey_G}, [this] { goto_.open(); });
  add("play", "Play or pause", {ImGuiKey_Space}, [this] { transport_.toggle(); });
  add("chunk.next", "Next chunk", {ImGuiKey_RightArrow}, [&cursor] { cursor.step_chunk(1); });
  add("chunk.previous", "Previous chunk", {ImGuiKey_LeftArrow},
      [&cursor] { cursor.step_chunk(-1); });
  hidden("chunk.forward", "Eight chunks on", {ImGuiMod_Shift | ImGuiKey_RightArrow},
         [&cursor] { cursor.step_chunk(8); });
  hidden("chunk.backward", "Eight chunks back", {ImGuiMod_Shift | ImGuiKey_LeftArrow},
         [&cursor] { cursor.step_chunk(-8); });
  add("chunk.first", "First chunk", {ImGuiKey_Home}, [&cursor] { cursor.set_chunk(0); });
  add("chunk.last", "Last chunk", {ImGuiKey_End}, [&cursor] { cursor.set_chunk(1 << 30); });
  add("layer.next", "Next layer", {ImGuiKey_DownArrow}, [&cursor] { cursor.step_layer(1); });
  add("layer.previous", "Previous layer", {ImGuiKey_UpArrow}, [&cursor] { cursor.step_layer(-1); });
  add("head.next", "Next query head", {ImGuiKey_PageDown},
      [&cursor] { cursor.set_q_head(cursor.place().q_head + 1); });
  add("head.previous", "Previous query head", {ImGuiKey_PageUp},
      [&cursor] { cursor.set_q_head(cursor.place().q_head - 1); });
  for (std::size_t i = 0; i < state::perspectives().size(); ++i) {
    const state::Perspective& one = state::perspectives()[i];
    const Adder go(commands_, "Go", [this, &one] {
      return workspace_.has_trace() && (!one.of_results || workspace_.results.is_open());
    });
    go("go." + one.id, one.question, {static_cast<ImGuiKey>(ImGuiKey_1 + static_cast<int>(i))},
       [&cursor, &one] { cursor.set_perspective(one.id); });
  }
  add("find", "Find in the text", {ImGuiMod_Ctrl | ImGuiKey_F},
      [this] { panels_.search("token_strip"); });
  Adder(commands_, "Go", [&cursor] { return cursor.place().has_keys(); })(
      "keys.clear", "Watch these keys no more", {ImGuiKey_Escape},
      [&cursor] { cursor.set_keys({}); });
}

void Explorer::add_method_commands() {
  state::Cursor& cursor = workspace_.cursor;
  const Adder add(commands_, "Method", [this] { return workspace_.has_trace(); });
  add("method.flip", "Show the other method (A or B)", {ImGuiKey_X},
      [&cursor] { cursor.show(other_than(cursor.selection().shown)); });
  add("method.swap", "Swap A and B", {ImGuiMod_Ctrl | ImGuiKey_E},
      [&cursor] { cursor.swap_methods(); });
  add("latency.run", "Measure latency", {}, [this] {
    panels_.show("latency");
    workspace_.answers.start(state::LatencyQuestion{workspace_.place(), workspace_.method()});
  });
}

void Explorer::add_view_commands() {
  const Adder panel(commands_, "View/Panels");
  for (const state::ViewInfo& view : state::views())
    panel("view." + view.id, view.title, {}, [this, id = view.id] { panels_.open_here(id); });
  for (const auto& [id, name] : {std::pair{"view.runs", state::kRunsWindow},
                                 {"view.memory", state::kMemoryWindow},
                                 {"view.method", state::kMethodWindow},
                                 {"view.notes", state::kNotesWindow}})
    panel(id, name, {}, [this, name = name] { panels_.open_here(name); });
  add_look_commands();
  Adder(commands_, "View", [this] { return panels_.can_reopen(); })(
      "layout.reopen", "Reopen what was closed", {ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_T},
      [this] { panels_.reopen(); });
  const Adder layouts(commands_, kLayoutsMenu, [this] { return workspace_.has_trace(); });
  layouts("layout.save", "Save layout as\u2026", {}, [this] { layouts_.ask_for_name(); });
  layouts("layout.export", "Export this layout\u2026", {},
          [this] { layouts_.export_to(settings_.last_folder); });
  layouts("layout.import", "Import a layout\u2026", {},
          [this] { layouts_.import_from(settings_.last_folder); });
  Adder(commands_, "View")("layout.reset", "Reset the layout of this workspace", {},
                           [this] { panels_.reset_layout(); });
  for (const state::ViewInfo& view : state::views()) {
    const Adder hidden(commands_, "", [this, &view] { return workspace_.can_show(view); });
    if (!view.shows_results)
      hidden(fmt::format("figure.{}", view.id), fmt::format("Figure of {}\u2026", view.title), {},
             [this, &view] { figure_sheet_.open(view); });
    for (const state::Format format : view.formats())
      hidden(fmt::format("export.{}.{}", view.id, state::name_of(format)),
             fmt::format("Export {} as {}\u2026", view.title, state::name_of(format)), {},
             [this, &view, format] { exporter_.ask(view, format, settings_.last_folder); });
  }
}

void Explorer::add_look_commands() {
  const Adder add(commands_, "View/Looks");
  using widgets::ThemeChoice;
  const auto choice = [&](std::string id, std::string title, std::function<bool()> checked,
                          std::function<void()> run) {
    add(std::move(id), std::move(title), {}, std::move(run));
    commands_.back().checked = std::move(checked);
  };
  for (const auto& [theme, id, title] : {std::tuple{ThemeChoice::Dark, "theme.dark", "Dark"},
                                         {ThemeChoice::Light, "theme.light", "Light"},
                                         {ThemeChoice::System, "theme.system", "As the desktop"}})
    choice(
        id, title, [this, theme = theme] { return settings_.theme == theme; },
        [this, theme = theme] { set_theme(theme); });
  Adder(commands_, "")("theme", "Dark or light", {}, [this] {
    set_theme(theme() == widgets::ThemeKind::Dark ? ThemeChoice::Light : ThemeChoice::Dark);
  });
  add("text_line", "Text line on or off", {},
      [this] { settings_.text_line = !settings_.text_line; });
  add("desktop_dialogs", "File dialogs of the desktop or of this window", {}, [this] {
    settings_.desktop_dialogs = files_.prefers_desktop = !settings_.desktop_dialogs;
    if (files_.prefers_desktop) DesktopDialog::look_for();
  });
  add("scale.up", "Larger",
      {ImGuiMod_Ctrl | ImGuiKey_Equal, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal,
       ImGuiMod_Ctrl | ImGuiKey_KeypadAdd},
      [this] { set_scale(next_scale(settings_.user_scale, true)); });
  add("scale.down", "Smaller",
      {ImGuiMod_Ctrl | ImGuiKey_Minus, ImGuiMod_Ctrl | ImGuiKey_KeypadSubtract},
      [this] { set_scale(next_scale(settings_.user_scale, false)); });
  add("scale.reset", "Normal size", {ImGuiMod_Ctrl | ImGuiKey_0}, [this] { set_scale(1); });
  for (const float scale : {kLeastScale, 1.25F, 1.5F, 2.0F, kMostScale}) {
    const int percent = static_cast<int>(std::lround(100 * scale));
    choice(
        fmt::format("scale.{}", percent), fmt::format("{} %", percent),
        [this, scale] { return settings_.user_scale == scale; },
        [this, scale] { set_scale(scale); });
  }
}

void Explorer::add_help_commands() {
  const Adder add(commands_, "Help");
  add("palette", "Command palette", {ImGuiMod_Ctrl | ImGuiKey_K, ImGuiMod_Ctrl | ImGuiKey_P},
      [this] { palette_.open(); });
  add("shortcuts", "Shortcuts", {ImGuiKey_F1, ImGuiMod_Shift | ImGuiKey_Slash},
      [this] { sheet_.open(); });
  add("colors", "Colours", {}, [this] { colors_.open(); });
  add("tour", "Guided tour", {}, [this] { tour_.open(state::first_tour()); });
  const Adder in_tour(commands_, "Help", [this] { return tour_.is_open(); });
  in_tour("tour.next", "Next page of the tour", {ImGuiMod_Shift | ImGuiKey_PageDown},
          [this] { tour_.step(1); });
  in_tour("tour.previous", "Page of the tour before", {ImGuiMod_Shift | ImGuiKey_PageUp},
          [this] { tour_.step(-1); });
  in_tour("tour.close", "End the tour", {}, [this] { tour_.close(); });
}

bool Explorer::run_command(const std::string& id) {
  for (const Command& command : commands_)
    if (command.id == id && command.is_enabled()) {
      command.run();
      return true;
    }
  return false;
}

}  // namespace kvloupe::shell
