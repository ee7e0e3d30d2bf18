#include "app/shell/windows/dialogs.h"

#include "app/state/view_fields.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

namespace kvloupe::shell {
void CommandPalette::draw(const std::vector<Command>& commands, const widgets::Palette& palette) {
  constexpr const char* kId = "Command palette";
  if (opening_) {
    opening_ = false;
    query_.clear();
    index_ = 0;
    ImGui::OpenPopup(kId);
  }
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({viewport->GetCenter().x, viewport->Pos.y + viewport->Size.y * 0.16F},
                          ImGuiCond_Always, {0.5F, 0});
  ImGui::SetNextWindowSize({widgets::em(40), widgets::em(26)});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  widgets::escape_closes_popup();
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##query", "Type what you want to do", &query_)) index_ = 0;
  const std::vector<std::size_t> matches = matching(query_, commands);
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++index_;
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --index_;
  index_ = std::clamp(index_, 0, std::max(0, static_cast<int>(matches.size()) - 1));
  const Command* chosen = nullptr;
  if (ImGui::BeginChild("##matches")) {
    if (matches.empty())
      widgets::text_wrapped(palette.muted,
                            fmt::format("Nothing is called \u201C{}\u201D here.", query_));
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const Command& command = commands[matches[i]];
      const bool here = static_cast<int>(i) == index_;
      if (ImGui::Selectable(fmt::format("{}###{}", command.title, command.id).c_str(), here))
        chosen = &command;
      if (here) ImGui::SetScrollHereY();
      const std::string keys = shortcut_text(command);
      ImGui::SameLine(ImGui::GetWindowWidth() - ImGui::CalcTextSize(keys.c_str()).x -
                      widgets::em(1));
      widgets::text_colored(palette.faint, keys);
    }
  }
  ImGui::EndChild();
  if (ImGui::IsKeyPressed(ImGuiKey_Enter) && !matches.empty())
    chosen = &commands[matches[static_cast<std::size_t>(index_)]];
  if (chosen != nullptr) {
    ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
    chosen->run();
    return;
  }
  ImGui::EndPopup();
}

void ShortcutSheet::draw(const std::vector<Command>& commands, const widgets::Palette& palette) {
  constexpr const char* kId = "Shortcuts";
  if (opening_) {
    opening_ = false;
    ImGui::OpenPopup(kId);
  }
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  {
    const widgets::FontScope strong(widgets::Type::Title);
    widgets::text_colored(palette.text, "Shortcuts");
  }
  if (ImGui::BeginTable("##shortcuts", 4,
                        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX)) {
    for (const Command& command : commands) {
      if (command.keys.empty() || command.id.rfind("recent.", 0) == 0) continue;
      ImGui::TableNextColumn();
      {
        const widgets::FontScope mono(widgets::Type::Number);
        widgets::text_colored(palette.accent, shortcut_text(command));
      }
      ImGui::TableNextColumn();
      widgets::text_colored(palette.text, command.title + "      ");
    }
    ImGui::EndTable();
  }
  widgets::text_colored(palette.muted,
                        "Ctrl+1 to Ctrl+9 open recent files. Drag pans a map, the wheel zooms, "
                        "a double click shows all.");
  ImGui::EndPopup();
}

void GotoDialog::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  constexpr const char* kId = "Go to";
  if (opening_) {
    opening_ = false;
    text_ = state::goto_text(workspace.place());
    problem_.clear();
    ImGui::OpenPopup(kId);
  }
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  widgets::text_colored(palette.muted,
                        "layer, q_head or kv_head, chunk, query, window, key or key=40-52");
  widgets::escape_closes_popup();
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(widgets::em(24));
  const bool entered = ImGui::InputText(
      "##goto", &text_, ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  ImGui::SameLine();
  if (ImGui::Button("Go") || entered) {
    try {
      state::show(workspace, state::parse_link(text_));
      ImGui::CloseCurrentPopup();
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }
  if (!problem_.empty()) {
    ImGui::PushTextWrapPos(widgets::em(28));
    widgets::text_colored(palette.error, problem_);
    ImGui::PopTextWrapPos();
  }
  ImGui::EndPopup();
}

}  // namespace kvloupe::shell
