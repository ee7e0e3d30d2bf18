// The frame of the window; its commands are in explorer_commands.cpp.
#include "app/shell/explorer.h"

#include "app/figure/figure_page.h"
#include "app/shell/bars/file_tabs.h"
#include "app/shell/bars/job_line.h"
#include "app/shell/frame/frame_guard.h"
#include "app/shell/saved/places_file.h"
#include "app/shell/windows/desktop_dialog.h"
#include "app/shell/windows/welcome.h"
#include "app/state/questions/results/lost_answer.h"
#include "app/state/span_choices.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/letters.h"
#include "core/base/paths.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace kvloupe::shell {
namespace {

bool asks_for_needle(const trace::TraceInfo& info) {
  return replay::question_of(info) != nullptr && state::needle_of(info) != nullptr;
}

// One that is only held does not count: it may have begun what is measured.
bool any_key_pressed() {
  for (int key = ImGuiKey_Keyboard_BEGIN; key < ImGuiKey_Keyboard_END; ++key)
    if (ImGui::IsKeyPressed(static_cast<ImGuiKey>(key), /*repeat=*/false)) return true;
  return false;
}

}  // namespace

Explorer::Explorer(state::Workspace& workspace, figure::GuiContext& gui, Settings settings)
    : workspace_(workspace),
      gui_(gui),
      settings_(std::move(settings)),
      recent_(load_recent_files()),
      steps_(workspace),
      panels_(workspace, messages_, steps_),
      tour_(workspace, panels_, messages_),
      runs_(messages_),
      notes_(messages_),
      glyphs_(workspace.memory, MemoryPart::Textures, 0),
      exporter_(workspace, files_, messages_),
      figure_sheet_(workspace, exporter_),
      layouts_(workspace, panels_, steps_, files_, messages_),
      capture_(workspace, files_, messages_),
      cursor_menu_(workspace, panels_, exporter_, messages_),
      dropped_(workspace, messages_, takers_of_dropped()) {
  files_.prefers_desktop = settings_.desktop_dialogs;
  if (files_.prefers_desktop) DesktopDialog::look_for();
  panels_.add_window(state::kRunsWindow, [this] { runs_.draw(workspace_, gui_.palette()); });
  panels_.add_window(state::kMemoryWindow,
                     [this] { memory_ui(*workspace_.memory, gui_.palette()); });
  panels_.add_window(state::kMethodWindow,
                     [this] { method_card_.draw(workspace_, gui_.palette()); });
  panels_.add_window(state::kNotesWindow, [this] { notes_.draw(workspace_, gui_.palette()); });
  panels_.context_menu = [this](const state::ViewInfo& view) {
    for (const state::Format format : view.formats())
      if (ImGui::MenuItem(fmt::format("Export as {}\u2026", state::name_of(format)).c_str()))
        exporter_.ask(view, format, settings_.last_folder);
    if (view.shows_results) {
      if (workspace_.results.ready() != nullptr && ImGui::MenuItem("Figure\u2026"))
        figure_sheet_.open(view);
      if (ImGui::MenuItem("Copy the export command"))
        ImGui::SetClipboardText(exporter_.command_of(view).c_str());
      return;
    }
    if (!workspace_.has_trace()) return;
    if (ImGui::MenuItem("Figure\u2026")) figure_sheet_.open(view);
    if (ImGui::MenuItem("Copy the export command"))
      ImGui::SetClipboardText(exporter_.command_of(view).c_str());
    if (ImGui::MenuItem("Copy the command that opens it here"))
      ImGui::SetClipboardText(exporter_.link_command_of(&view).c_str());
  };
  workspace_.traces.on_message = [this](const std::string& text, bool is_error) {
    if (!dropped_.take_message(text, is_error)) messages_.say(text, is_error);
  };
  workspace_.results.on_message = [this](const std::string& text, bool is_error) {
    messages_.say(text, is_error);
  };
  workspace_.traces.on_opened = [this](state::TraceTab& tab, bool fresh) {
    runs_.load_marks(tab);
    const auto kept = fresh && settings_.restore_places ? find_place(tab.path) : std::nullopt;
    // What the trace no longer has is passed over: its file may have been made anew.
    if (kept) show(tab, *kept, state::Unknown::PassOver);
    // What is kept of the needle when it is asked for: that is looked at first.
    if (fresh && !kept && asks_for_needle(tab.selection.place.info()))
      for (const char* option : {"layer_head_overview.metric", "budget_sweep.metric"})
        tab.selection.options[option] = replay::name_of(replay::Number::SpanKept);
    // What counts is what is left when somebody asks. Who chooses other numbers keeps them.
    state::NumberScope& numbers = tab.selection.numbers;
    const bool asks = replay::question_of(tab.selection.place.info()) != nullptr;
    if (asks && !std::exchange(tab.question_seen, true) && numbers == state::NumberScope{})
      numbers.kind = state::NumberScope::Kind::Question;
    if (capture_.is_part(tab.path)) return;
    note_recent(tab.path);
    if (!paths::comes_with_program(tab.path))
      settings_.last_folder = std::filesystem::path(tab.path).parent_path().string();
  };
  capture_.on_trace = [this](const std::string& path) { note_recent(path); };
  panels_.set_open(settings_.closed_panels, false);
  panels_.set_open(settings_.opened_panels, true);
  make_commands();
  if (!settings_.problem.empty()) messages_.say(settings_.problem, true);
  if (settings_.theme == widgets::ThemeChoice::System) desktop_theme_.ask();
}

Explorer::~Explorer() {
  workspace_.traces.on_message = nullptr;
  workspace_.results.on_message = nullptr;
  workspace_.traces.on_opened = nullptr;
}

void Explorer::note_recent(const std::string& path) {
  add_recent_file(path);
  recent_ = load_recent_files();
}

Settings Explorer::settings() const {
  Settings settings = settings_;
  settings.closed_panels = panels_.closed();
  settings.opened_panels = panels_.opened();
  return settings;
}

void Explorer::set_window_size(int width, int height) {
  settings_.window_width = width;
  settings_.window_height = height;
}

void Explorer::set_content_scale(float scale) {
  if (scale == content_scale_) return;
  content_scale_ = scale;
  style_changed_ = true;
}

void Explorer::set_scale(float scale) {
  settings_.user_scale = scale;
  style_changed_ = true;
}

void Explorer::set_theme(widgets::ThemeChoice theme) {
  settings_.theme = theme;
  style_changed_ = true;
  if (theme == widgets::ThemeChoice::System) desktop_theme_.ask();
}

widgets::ThemeKind Explorer::theme() const {
  switch (settings_.theme) {
    case widgets::ThemeChoice::Dark: return widgets::ThemeKind::Dark;
    case widgets::ThemeChoice::Light: return widgets::ThemeKind::Light;
    case widgets::ThemeChoice::System: break;
  }
  return desktop_theme_.kind();
}

// Who changes the desktop's theme does that elsewhere, and then comes back to this window.
void Explorer::follow_desktop() {
  const bool away = ImGui::GetIO().AppFocusLost;
  if (was_away_ && !away && settings_.theme == widgets::ThemeChoice::System) desktop_theme_.ask();
  was_away_ = away;
  desktop_theme_.poll();
  style_changed_ |= theme() != gui_.theme();
}

void Explorer::before_frame() {
  follow_desktop();
  speaker_.before_frame();
  if (style_changed_)
    gui_.apply_style(theme(),
                     content_scale_ * settings_.user_scale * (presenting_ ? kPresented : 1));
  style_changed_ = false;
  // Formulas have signs that the interface's face lacks; one of them brings all.
  if (tour_.is_open()) widgets::ensure_glyphs(gui_.fonts(), {U'\u2208'});
  const state::Place& place = workspace_.place();
  if (!place.empty() && place.trace_key() != fonts_for_) {
    fonts_for_ = place.trace_key();
    figure::prepare_fonts(gui_, place);
  }
}

bool Explorer::animating() const {
  return transport_.playing() || desktop_theme_.asking() || workspace_.answers.busy() ||
         workspace_.results.recording.running() || !messages_.empty() || widgets::tooltip_waits();
}

void Explorer::frame() {
  const std::string problem = guarded([this] { draw_all(); });
  if (!problem.empty()) messages_.say_once(problem, true);
}

void Explorer::draw_all() {
  glyphs_.resize(gui_.glyph_bytes());
  stop_measuring_on_input();
  workspace_.begin_frame();
  state::follow_lost_answer(workspace_);
  capture_.tick();
  dropped_.tick();
  keyboard();
  transport_.tick(workspace_);
  tour_.tick();
  presenting_ ? presenter_ui() : bars_ui();
  tour_.draw(gui_.palette());
  panels_.draw(gui_);
  if (const std::string wanted = std::exchange(workspace_.wanted_command, {}); !wanted.empty())
    run_command(wanted);
  if (workspace_.traces.tabs().empty() && !workspace_.results.is_open() && !capture_.is_open())
    welcome_ui(
        gui_.palette(), recent_,
        {[this] { open_dialog(); }, [this] { new_capture(); }, [this] { run_command("tour"); },
         [this](const std::string& path) { workspace_.traces.open(path); }});
  capture_.draw(gui_.palette());
  palette_.draw(commands_, gui_.palette());
  const KeyChoices keys = settings_.keys;
  sheet_.draw(commands_, settings_.keys, gui_.palette());
  if (keys != settings_.keys) use_keys();
  goto_.draw(workspace_, gui_.palette());
  colors_.draw(gui_.palette());
  // What it was asked about may have ended meanwhile.
  if (closing_.asking()) ask_to_quit();
  // The question stands alone: of two dialogs each would close the other.
  if (!closing_.asking()) {
    files_.draw(gui_.palette());
    figure_sheet_.draw(gui_.palette(), settings_.last_folder);
    exporter_.draw(gui_.palette());
    layouts_.draw(gui_.palette());
  }
  if (closing_.draw(gui_.palette())) quit_ = true;
  messages_.draw(gui_.palette());
  cursor_menu_.draw(gui_.palette(), settings_.last_folder);
  widgets::draw_tooltip(gui_.palette());
  popup_was_open_ = widgets::popup_is_open();
}

void Explorer::bars_ui() {
  const bool has_tab = !workspace_.traces.tabs().empty();
  // Of results place and methods of a trace say nothing.
  const bool of_trace = has_tab && !panels_.now().of_results;
  menu_ui();
  if (of_trace) transport_.draw(workspace_, gui_.palette());
  status_ui();
  if (settings_.text_line && of_trace && workspace_.has_trace())
    text_line_.draw(workspace_, gui_.palette());
  if (has_tab || workspace_.results.is_open())
    rail_.draw(workspace_, panels_.now(), gui_.palette());
}

// A measurement is disturbed by whatever the user does: it ends, and keeps the samples it has.
void Explorer::stop_measuring_on_input() {
  const ImGuiIO& io = ImGui::GetIO();
  const bool pressed = ImGui::IsAnyMouseDown() || io.MouseWheel != 0 || io.MouseWheelH != 0 ||
                       io.InputQueueCharacters.Size > 0 || any_key_pressed();
  if (pressed && workspace_.answers.measuring()) workspace_.answers.stop_measuring();
}

// Arrows and Space are commands of the window: ImGui's own keyboard focus follows them only where a
// popup has the keyboard to itself.
void Explorer::keyboard() {
  ImGuiIO& io = ImGui::GetIO();
  const bool popup = widgets::popup_is_open();
  if (popup)
    io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  else
    io.ConfigFlags &= ~ImGuiConfigFlags_NavEnableKeyboard;
  // A submenu that it closed would open again under a mouse that rests: the mouse counts from where it
  // moves next.
  if (popup && ImGui::IsKeyPressed(ImGuiKey_Escape))
    ImGui::GetCurrentContext()->NavHighlightItemUnderNav = true;
  // The key that has just closed a popup (Escape) was the popup's.
  if (!popup && !popup_was_open_) handle_shortcuts(commands_);
}

// The last thing first: a view that was closed after the last change of what is shown comes back
// before that change is taken back.
void Explorer::undo() {
  if (steps_.is_last() || !workspace_.cursor.back()) steps_.back();
}

void Explorer::redo() {
  if (steps_.is_next())
    steps_.forward();
  else
    workspace_.cursor.forward();
}

void Explorer::close_trace() {
  const state::ViewState was = state::state_of(*workspace_.traces.active());
  const auto close = [this] {
    if (before_close) before_close();
    workspace_.traces.close_active();
    panels_.forget();
    runs_.forget();
    transport_.forget();
    rail_.forget();
    text_line_.forget();
  };
  close();
  panels_.note_closed_trace(was);
  steps_.push([this, was] { workspace_.traces.open(was.trace, was, state::Unknown::PassOver); },
              [this, close, trace = was.trace] {
                const state::TraceTab* tab = workspace_.traces.find(trace);
                if (tab == nullptr) return;
                workspace_.traces.activate(tab->id);
                close();
              });
}

void Explorer::ask_to_quit() {
  // Asked in every frame while the question stands; a full disk is tried once.
  if (!closing_.asking()) notes_.finish();
  const std::string what = under_way();
  if (what.empty())
    quit_ = true;
  else
    closing_.ask(what);
}

// One sentence; empty: all is on the disk, or will be.
std::string Explorer::under_way() {
  std::vector<std::string> parts;
  if (capture_.running())
    parts.emplace_back("the capture under way would end, and only its chunks done would stay");
  if (workspace_.results.recording.running())
    parts.emplace_back(
        "the recording of a sample under way would end, and nothing of it would stay");
  const std::vector<JobStatus> jobs = workspace_.answers.jobs().status();
  const auto count = [&jobs](const char* tag) {
    return std::count_if(jobs.begin(), jobs.end(),
                         [tag](const JobStatus& job) { return job.tag.starts_with(tag); });
  };
  if (const auto files = count("export "); files > 0)
    parts.push_back(files == 1
                        ? "a file is being written and would be missing"
                        : fmt::format("{} files are being written and would be missing", files));
  if (const auto runs = count("save run|"); runs > 0)
    parts.push_back(runs == 1 ? "a run is being saved and would be missing"
                              : fmt::format("{} runs are being saved and would be missing", runs));
  if (const std::string why = notes_.unsaved(); !why.empty())
    parts.push_back("notes are not saved (" + why + ")");
  if (parts.empty()) return "";
  return capitalised(fmt::format("{}.", fmt::join(parts, "; ")));
}

void Explorer::menu_ui() {
  if (!ImGui::BeginMainMenuBar()) return;
  for (const char* menu : {"File", "Edit", "Go", "View", "Method", "Help"}) {
    if (!ImGui::BeginMenu(menu)) continue;
    commands_ui(menu);
    if (menu == std::string("File")) {
      if (ImGui::BeginMenu("Export", workspace_.has_trace() || workspace_.results.ready())) {
        for (const state::ViewInfo& view : state::views())
          if (ImGui::BeginMenu(view.title.c_str(), workspace_.can_show(view))) {
            panels_.context_menu(view);
            ImGui::EndMenu();
          }
        ImGui::EndMenu();
      }
      if (ImGui::BeginMenu("Recent", !recent_.empty())) {
        std::error_code none;
        for (int id = 0; const std::string& path : std::vector<std::string>(recent_)) {
          ImGui::PushID(id++);
          if (ImGui::MenuItem(state::readable_name(path).c_str(), nullptr, false,
                              std::filesystem::exists(path, none)))
            workspace_.traces.open(path);
          ImGui::PopID();
        }
        ImGui::EndMenu();
      }
    }
    ImGui::EndMenu();
  }
  if (file_tabs_ui(workspace_, panels_.now().of_results, gui_.palette())) run_command("close");
  ImGui::EndMainMenuBar();
}

// The commands of a menu; "View/Panels" is a menu in "View", where the first of its commands stands.
void Explorer::commands_ui(const std::string& menu) {
  std::set<std::string> inner;
  // By index: a command may be pressed that changes what is open, not the list.
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    const Command& command = commands_[i];
    if (command.menu.starts_with(menu + "/") && inner.insert(command.menu).second &&
        ImGui::BeginMenu(command.menu.c_str() + menu.size() + 1)) {
      commands_ui(command.menu);
      if (command.menu == kLayoutsMenu) layouts_.list_ui();
      ImGui::EndMenu();
    }
    if (command.menu != menu) continue;
    if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str(),
                        command.checked && command.checked(), command.is_enabled()))
      command.run();
  }
}

void Explorer::open_dialog() {
  files_.open(FileDialog::Purpose::OpenTrace, "Open a trace", settings_.last_folder,
              [this](const std::string& path) { workspace_.traces.open(path); });
}

void Explorer::new_capture() { capture_.open(settings_.last_folder); }

namespace {

// The text of the prefill; empty where the trace has none.
std::string prompt_of(const state::OpenTrace& trace) {
  const trace::TraceInfo& info = trace.info();
  const std::vector<std::string>& texts = trace.session->token_texts();
  std::int32_t end = 0;
  for (const trace::ChunkInfo& chunk : info.chunks)
    if (chunk.phase == trace::Phase::Prefill) end = std::max(end, chunk.end());
  std::string prompt;
  for (std::int32_t t = 0; t < std::min(end, static_cast<std::int32_t>(texts.size())); ++t)
    prompt += texts[static_cast<std::size_t>(t)];
  return prompt;
}

}  // namespace

void Explorer::new_drift_capture() {
  new_capture();
  const bool known = workspace_.has_trace() && workspace_.method().known();
  capture_.form().choose_drift(
      known ? workspace_.method().text : std::string(),
      workspace_.has_trace() ? prompt_of(*workspace_.place().trace) : std::string());
}

DroppedFiles::Takers Explorer::takers_of_dropped() {
  const auto take = [this](const std::string& path) {
    return capture_.take(path, settings_.last_folder);
  };
  return {take, take, [this](const std::string& path) { layouts_.import_file(path); },
          [this](const std::string& path) { tour_.open(path); }};
}

void Explorer::status_ui() {
  const widgets::FontScope small(widgets::Type::Caption);
  const auto& p = gui_.palette();
  const float height = ImGui::GetFrameHeight() + widgets::em(0.3F);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(0.8F), widgets::em(0.15F)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, p.window);
  if (ImGui::BeginViewportSideBar("##status", ImGui::GetMainViewport(), ImGuiDir_Down, height,
                                  kFlags)) {
    ImGui::AlignTextToFramePadding();
    capture_.status_ui(p);
    recording_ui(workspace_.results, p);
    job_ui(workspace_, p);
    if (!workspace_.place().empty()) {
      const trace::TraceInfo& info = workspace_.place().info();
      const std::string file = fmt::format("{}  \u00B7  {} tokens  \u00B7  {}  \u00B7  ",
                                           state::readable_name(workspace_.place().trace->name),
                                           format_count(info.num_tokens), format_bytes(info.bytes));
      const std::string memory = memory_text(*workspace_.memory);
      // What has no room beside the job is left out, the memory last.
      const float end = ImGui::GetWindowWidth() - widgets::em(1);
      const float room =
          end - (ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x) - widgets::em(1);
      const auto width = [](const std::string& text) {
        return ImGui::CalcTextSize(text.c_str()).x;
      };
      const bool all = width(file + memory) <= room;
      if (all || width(memory) <= room) {
        ImGui::SameLine(end - width(all ? file + memory : memory));
        if (all) {
          widgets::text_colored(p.faint, file);
          ImGui::SameLine(0, 0);
        }
        widgets::text_colored(p.muted, memory);
        if (ImGui::IsItemHovered()) widgets::tooltip("What is kept in memory; click for its parts");
        if (ImGui::IsItemClicked()) panels_.open_here(state::kMemoryWindow);
      }
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

}  // namespace kvloupe::shell
