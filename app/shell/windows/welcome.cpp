#include "app/shell/windows/welcome.h"

#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>

#include <filesystem>

namespace kvloupe::shell {

void welcome_ui(const widgets::Palette& p, const std::vector<std::string>& recent,
                const WelcomeActions& actions) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({viewport->WorkPos.x + viewport->WorkSize.x / 2,
                           viewport->WorkPos.y + viewport->WorkSize.y * 0.4F},
                          ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({widgets::em(38), 0});
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(2), widgets::em(1.6F)});
  std::string chosen;
  if (ImGui::Begin("Welcome", nullptr, kFlags)) {
    {
      const widgets::FontScope strong(widgets::Type::Title);
      widgets::text_colored(p.text, "KVLoupe");
    }
    widgets::text_wrapped(p.muted, "Which KVs each sparse-attention method keeps, and why.");
    ImGui::Dummy({0, widgets::grid(1)});
    if (ImGui::Button("Open a trace\u2026", {widgets::em(10), 0})) actions.ask();
    ImGui::SameLine();
    const auto or_drop = [](const char* command, const char* drop) {
      const std::string key = widgets::key_name(command);
      return key.empty() ? "or " + std::string(drop) : key + ", or " + drop;
    };
    widgets::text_colored(p.muted, or_drop("open", "drop a .h5 file here"));
    if (!recent.empty()) {
      ImGui::SeparatorText("Recent");
      for (std::size_t i = 0; i < recent.size(); ++i) {
        const std::filesystem::path path(recent[i]);
        std::error_code ignored;
        const bool there = std::filesystem::exists(path, ignored);
        ImGui::BeginDisabled(!there);
        if (ImGui::Selectable(
                fmt::format("{}##{}", state::readable_name(path.filename().string()), i).c_str()))
          chosen = recent[i];
        ImGui::EndDisabled();
        ImGui::SameLine(widgets::em(13));
        widgets::text_colored(
            p.faint,
            widgets::elided(there ? state::readable_name(path.parent_path().string()) : "missing",
                            widgets::em(20)));
      }
    }
    ImGui::SeparatorText("No trace yet?");
    if (ImGui::Button("Guided tour", {widgets::em(10), 0})) actions.tour();
    ImGui::SameLine();
    widgets::text_colored(p.muted, "page by page, on a trace that is in the box");
    if (ImGui::Button("New capture\u2026", {widgets::em(10), 0})) actions.capture();
    ImGui::SameLine();
    widgets::text_colored(p.muted, or_drop("capture", "drop a model; or run"));
    ImGui::SameLine();
    const widgets::FontScope mono(widgets::Type::Number);
    widgets::text_colored(p.muted, "./kvloupe.sh demo");
  }
  ImGui::End();
  ImGui::PopStyleVar();
  if (!chosen.empty()) actions.open(chosen);
}

}  // namespace kvloupe::shell
