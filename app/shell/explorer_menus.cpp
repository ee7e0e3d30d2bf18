// Commands, menus, the command palette, the shortcut sheet and the dialogs of the Explore
// workspace.
#include "app/shell/explorer.h"

#include "app/shell/run_self.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <filesystem>

namespace kvloupe::shell {

void Explorer::make_commands() {
  const auto has_trace = [this] { return workspace_.ready() != nullptr; };
  const auto add = [&](const char* id, const char* menu, const char* title,
                       std::vector<ImGuiKeyChord> keys, std::function<void()> run,
                       std::function<bool()> enabled = {}) {
    commands_.push_back(
        {id, menu, title, std::move(keys), std::move(run), std::move(enabled), false});
  };
  add("open", "File", "Open a trace\u2026", {ImGuiMod_Ctrl | ImGuiKey_O},
      [this] { open_dialog(); });
  add(
      "reload", "File", "Reload", {ImGuiKey_F5, ImGuiMod_Ctrl | ImGuiKey_R},
      [this] { workspace_.reload_active(); }, [this] { return workspace_.active() != nullptr; });
  add(
      "close", "File", "Close the trace", {ImGuiMod_Ctrl | ImGuiKey_W},
      [this] { workspace_.close_active(); }, [this] { return workspace_.active() != nullptr; });
  for (int i = 0; i < 9; ++i)
    commands_.push_back({fmt::format("recent.{}", i + 1),
                         "",
                         fmt::format("Open recent file {}", i + 1),
                         {ImGuiMod_Ctrl | static_cast<ImGuiKey>(ImGuiKey_1 + i)},
                         [this, i] { workspace_.open(recent_[static_cast<std::size_t>(i)]); },
                         [this, i] { return static_cast<std::size_t>(i) < recent_.size(); },
                         false});
  add("quit", "File", "Quit", {ImGuiMod_Ctrl | ImGuiKey_Q}, [this] { quit_ = true; });

  add(
      "back", "Go", "Back", {ImGuiMod_Ctrl | ImGuiKey_LeftBracket}, [this] { workspace_.back(); },
      [this] { return workspace_.can_go_back(); });
  add(
      "forward", "Go", "Forward", {ImGuiMod_Ctrl | ImGuiKey_RightBracket},
      [this] { workspace_.forward(); }, [this] { return workspace_.can_go_forward(); });
  add(
      "goto", "Go", "Go to\u2026", {ImGuiMod_Ctrl | ImGuiKey_G}, [this] { goto_open_ = true; },
      has_trace);
  add(
      "play", "Go", "Play or pause", {ImGuiKey_Space}, [this] { playing_ = !playing_; }, has_trace);
  add(
      "chunk.next", "Go", "Next chunk", {ImGuiKey_RightArrow}, [this] { workspace_.step_chunk(1); },
      has_trace);
  add(
      "chunk.previous", "Go", "Previous chunk", {ImGuiKey_LeftArrow},
      [this] { workspace_.step_chunk(-1); }, has_trace);
  add(
      "chunk.forward", "", "Eight chunks on", {ImGuiMod_Shift | ImGuiKey_RightArrow},
      [this] { workspace_.step_chunk(8); }, has_trace);
  add(
      "chunk.backward", "", "Eight chunks back", {ImGuiMod_Shift | ImGuiKey_LeftArrow},
      [this] { workspace_.step_chunk(-8); }, has_trace);
  add(
      "chunk.first", "Go", "First chunk", {ImGuiKey_Home}, [this] { workspace_.set_chunk(0); },
      has_trace);
  add(
      "chunk.last", "Go", "Last chunk", {ImGuiKey_End}, [this] { workspace_.set_chunk(1 << 30); },
      has_trace);
  add(
      "layer.next", "Go", "Next layer", {ImGuiKey_DownArrow}, [this] { workspace_.step_layer(1); },
      has_trace);
  add(
      "layer.previous", "Go", "Previous layer", {ImGuiKey_UpArrow},
      [this] { workspace_.step_layer(-1); }, has_trace);
  add(
      "head.next", "Go", "Next query head", {ImGuiKey_PageDown},
      [this] { workspace_.set_q_head(workspace_.selection().q_head + 1); }, has_trace);
  add(
      "head.previous", "Go", "Previous query head", {ImGuiKey_PageUp},
      [this] { workspace_.set_q_head(workspace_.selection().q_head - 1); }, has_trace);
  add(
      "keys.clear", "Go", "Follow the needle again", {ImGuiKey_Escape},
      [this] { workspace_.set_key_span(-1, -1); }, has_trace);

  add(
      "method.flip", "Method", "Show the other method (A or B)", {ImGuiKey_X},
      [this] {
        workspace_.change("flip", [](state::Selection& s) {
          s.shown = s.shown == state::Slot::A ? state::Slot::B : state::Slot::A;
        });
      },
      has_trace);
  add(
      "method.swap", "Method", "Swap A and B", {ImGuiMod_Ctrl | ImGuiKey_E},
      [this] { workspace_.swap_methods(); }, has_trace);
  add(
      "latency.run", "Method", "Measure latency", {},
      [this] {
        show_view("latency");
        workspace_.start_latency();
      },
      has_trace);

  add_view_commands();

  add("palette", "Help", "Command palette",
      {ImGuiMod_Ctrl | ImGuiKey_K, ImGuiMod_Ctrl | ImGuiKey_P}, [this] { palette_open_ = true; });
  add("shortcuts", "Help", "Shortcuts", {ImGuiKey_F1, ImGuiMod_Shift | ImGuiKey_Slash},
      [this] { sheet_open_ = true; });
}

void Explorer::add_view_commands() {
  const auto add = [&](std::string id, std::string menu, std::string title,
                       std::vector<ImGuiKeyChord> keys, std::function<void()> run) {
    commands_.push_back({std::move(id),
                         std::move(menu),
                         std::move(title),
                         std::move(keys),
                         std::move(run),
                         {},
                         false});
  };
  for (const panels::PanelInfo& info : panels::panel_registry())
    add(fmt::format("view.{}", info.id), "View", info.title, {},
        [this, id = std::string(info.id)] { show_view(id); });
  add("theme", "View", "Dark or light", {}, [this] {
    settings_.theme = settings_.theme == widgets::ThemeKind::Dark ? widgets::ThemeKind::Light
                                                                  : widgets::ThemeKind::Dark;
    style_changed_ = true;
  });
  add("scale.up", "View", "Larger",
      {ImGuiMod_Ctrl | ImGuiKey_Equal, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal,
       ImGuiMod_Ctrl | ImGuiKey_KeypadAdd},
      [this] { change_scale(1.1F); });
  add("scale.down", "View", "Smaller",
      {ImGuiMod_Ctrl | ImGuiKey_Minus, ImGuiMod_Ctrl | ImGuiKey_KeypadSubtract},
      [this] { change_scale(1 / 1.1F); });
  add("scale.reset", "View", "Normal size", {ImGuiMod_Ctrl | ImGuiKey_0},
      [this] { change_scale(0); });
  add("layout.reset", "View", "Reset the layout", {}, [this] { reset_layout_ = true; });
  for (const panels::PanelInfo& info : panels::panel_registry())
    for (const panels::Format format : info.formats)
      add(fmt::format("export.{}.{}", info.id, panels::name_of(format)), "",
          fmt::format("Export {} as {}\u2026", info.title, panels::name_of(format)), {},
          [this, &info, format] {
            if (workspace_.ready() != nullptr) export_dialog(info, format);
          });
}

bool Explorer::run_command(const std::string& id) {
  for (const Command& command : commands_)
    if (command.id == id && command.is_enabled()) {
      command.run();
      return true;
    }
  return false;
}

void Explorer::menu_ui() {
  if (!ImGui::BeginMainMenuBar()) return;
  for (const char* menu : {"File", "Go", "View", "Method", "Help"}) {
    if (!ImGui::BeginMenu(menu)) continue;
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      // By index: a command may be pressed that changes what is open, not the list.
      const Command& command = commands_[i];
      if (command.menu != menu) continue;
      if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str(), false,
                          command.is_enabled()))
        command.run();
    }
    if (menu == std::string("File") && ImGui::BeginMenu("Recent")) {
      for (const std::string& path : std::vector<std::string>(recent_))
        if (ImGui::MenuItem(path.c_str(), nullptr, false, std::filesystem::exists(path)))
          workspace_.open(path);
      ImGui::EndMenu();
    }
    ImGui::EndMenu();
  }
  tabs_ui();
  ImGui::EndMainMenuBar();
}

// Open traces as tabs in the menu bar.
void Explorer::tabs_ui() {
  int activate = -1;
  bool close = false;
  ImGui::Dummy({widgets::em(1), 0});
  const state::TraceTab* active = workspace_.active();
  for (const auto& tab : workspace_.tabs()) {
    const std::string name = std::filesystem::path(tab->path).filename().string();
    const bool here = tab.get() == active;
    ImGui::PushStyleColor(ImGuiCol_Text, here ? gui_.palette().text : gui_.palette().faint);
    if (ImGui::MenuItem(fmt::format("{}##tab{}", name, tab->id).c_str(), nullptr, false))
      activate = tab->id;
    ImGui::PopStyleColor();
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tab->path.c_str());
    if (ImGui::IsItemClicked(ImGuiMouseButton_Middle)) {
      activate = tab->id;
      close = true;
    }
    if (here) {
      const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
      ImGui::GetWindowDrawList()->AddRectFilled({from.x, to.y - 2}, to, gui_.palette().accent);
    }
  }
  if (activate >= 0) workspace_.activate(activate);
  if (close) workspace_.close_active();
}

void Explorer::open_dialog() {
  files_.open(FileDialog::Purpose::OpenTrace, "Open a trace", settings_.last_folder,
              [this](const std::string& path) { workspace_.open(path); });
}

std::string Explorer::export_arguments(const panels::PanelInfo& info) const {
  const state::Selection& s = workspace_.selection();
  std::string text = fmt::format("export '{}' --view {} --goto layer={},q_head={},chunk={}",
                                 workspace_.active()->path, info.id, s.layer, s.q_head, s.chunk);
  if (s.has_keys() && s.key_end == s.key_begin + 1) text += fmt::format(",key={}", s.key_begin);
  text += fmt::format(" --method '{}'", s.choice(s.shown).spec);
  return text;
}

void Explorer::export_dialog(const panels::PanelInfo& info, panels::Format format) {
  if (workspace_.ready() == nullptr) return;
  const std::filesystem::path start = std::filesystem::path(settings_.last_folder) /
                                      fmt::format("{}.{}", info.id, panels::name_of(format));
  files_.open(FileDialog::Purpose::SaveFile, fmt::format("Export {}", info.title), start,
              [this, &info, format](const std::string& file) { export_to(info, format, file); });
}

void Explorer::export_to(const panels::PanelInfo& info, panels::Format format,
                         const std::string& file) {
  // Pictures are drawn by the command line in a process of its own, with an OpenGL context of its
  // own.
  if (format == panels::Format::Png) {
    const state::Selection& s = workspace_.selection();
    std::string place = fmt::format("layer={},q_head={},chunk={}", s.layer, s.q_head, s.chunk);
    if (s.has_keys()) place += fmt::format(",key={}", s.key_begin);
    const std::vector<std::string> arguments{
        "export",   workspace_.active()->path, "--view", info.id, "--goto", place,
        "--method", s.choice(s.shown).spec,    "--png",  file};
    workspace_.jobs().submit<std::string>(
        Lane::TraceIo, "export", fmt::format("Exporting {}", info.title),
        [arguments](const WorkContext&) {
          return std::make_shared<std::string>(run_self(arguments));
        },
        [this, file](std::shared_ptr<const std::string> problem) {
          say(problem->empty() ? "Written: " + file : *problem, !problem->empty());
        },
        [this](const Error& error) { say(error.what(), true); });
    return;
  }
  try {
    for (OpenPanel& panel : panels_) {
      if (panel.info != &info) continue;
      if (const std::string problem = panel.panel->problem(workspace_); !problem.empty())
        throw input_error(fmt::format("{} cannot be exported yet", info.title), problem,
                          "wait for it, then export again");
      write_whole_file(file, format == panels::Format::Csv
                                 ? panels::csv_text(panel.panel->table(workspace_))
                                 : panels::npy_bytes(panel.panel->array(workspace_)));
      say("Written: " + file, false);
    }
  } catch (const Error& error) {
    say(error.what(), true);
  }
}

void Explorer::palette_ui() {
  constexpr const char* kId = "Command palette";
  if (palette_open_) {
    palette_open_ = false;
    palette_query_.clear();
    palette_index_ = 0;
    ImGui::OpenPopup(kId);
  }
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({viewport->GetCenter().x, viewport->Pos.y + viewport->Size.y * 0.16F},
                          ImGuiCond_Always, {0.5F, 0});
  ImGui::SetNextWindowSize({widgets::em(40), widgets::em(26)});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##query", "Type what you want to do", &palette_query_))
    palette_index_ = 0;
  struct Match {
    int score;
    std::size_t index;
  };
  std::vector<Match> matches;
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    const int score = std::max(match_score(palette_query_, commands_[i].title),
                               match_score(palette_query_, commands_[i].id));
    if (score >= 0 && commands_[i].is_enabled()) matches.push_back({score, i});
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& a, const Match& b) { return a.score > b.score; });
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++palette_index_;
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --palette_index_;
  palette_index_ = std::clamp(palette_index_, 0, std::max(0, static_cast<int>(matches.size()) - 1));
  const Command* chosen = nullptr;
  if (ImGui::BeginChild("##matches")) {
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const Command& command = commands_[matches[i].index];
      const bool here = static_cast<int>(i) == palette_index_;
      if (ImGui::Selectable(fmt::format("{}###{}", command.title, command.id).c_str(), here))
        chosen = &command;
      if (here) ImGui::SetScrollHereY();
      const std::string keys = shortcut_text(command);
      ImGui::SameLine(ImGui::GetWindowWidth() - ImGui::CalcTextSize(keys.c_str()).x -
                      widgets::em(1));
      widgets::text_colored(gui_.palette().faint, keys);
    }
  }
  ImGui::EndChild();
  if (ImGui::IsKeyPressed(ImGuiKey_Enter) && !matches.empty())
    chosen = &commands_[matches[static_cast<std::size_t>(palette_index_)].index];
  if (chosen != nullptr) {
    ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
    chosen->run();
    return;
  }
  ImGui::EndPopup();
}

void Explorer::shortcut_sheet_ui() {
  constexpr const char* kId = "Shortcuts";
  if (sheet_open_) {
    sheet_open_ = false;
    ImGui::OpenPopup(kId);
  }
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  {
    const widgets::FontScope strong(widgets::fonts().strong, 1.2F);
    widgets::text_colored(gui_.palette().text, "Shortcuts");
  }
  if (ImGui::BeginTable("##shortcuts", 4,
                        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX)) {
    for (const Command& command : commands_) {
      if (command.keys.empty() || command.id.rfind("recent.", 0) == 0) continue;
      ImGui::TableNextColumn();
      {
        const widgets::FontScope mono(widgets::fonts().mono, 0.95F);
        widgets::text_colored(gui_.palette().accent, shortcut_text(command));
      }
      ImGui::TableNextColumn();
      widgets::text_colored(gui_.palette().text, command.title + "      ");
    }
    ImGui::EndTable();
  }
  widgets::text_colored(gui_.palette().muted,
                        "Ctrl+1 to Ctrl+9 open recent files. Drag pans a map, the wheel zooms, a "
                        "double click shows all.");
  ImGui::EndPopup();
}

void Explorer::goto_ui() {
  constexpr const char* kId = "Go to";
  if (goto_open_) {
    goto_open_ = false;
    const state::Selection& s = workspace_.selection();
    goto_text_ = fmt::format("layer={},q_head={},chunk={}", s.layer, s.q_head, s.chunk);
    goto_problem_.clear();
    ImGui::OpenPopup(kId);
  }
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  widgets::text_colored(gui_.palette().muted, "layer, q_head or kv_head, chunk, query, key");
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(widgets::em(24));
  const bool entered =
      ImGui::InputText("##goto", &goto_text_,
                       ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  ImGui::SameLine();
  if (ImGui::Button("Go") || entered) {
    try {
      workspace_.go_to(state::parse_goto(goto_text_));
      ImGui::CloseCurrentPopup();
    } catch (const Error& error) {
      goto_problem_ = error.what();
    }
  }
  if (!goto_problem_.empty()) {
    ImGui::PushTextWrapPos(widgets::em(28));
    widgets::text_colored(gui_.palette().error, goto_problem_);
    ImGui::PopTextWrapPos();
  }
  ImGui::EndPopup();
}

}  // namespace kvloupe::shell
