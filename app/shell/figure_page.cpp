// See figure_page.h.
#include "app/shell/figure_page.h"

#include "app/shell/token_text.h"
#include "app/widgets/fonts.h"

namespace kvloupe::shell {

void figure_page_ui(panels::DrawContext& context, panels::Panel& panel) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize(viewport->Size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(1.6F), widgets::em(1.2F)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  if (ImGui::Begin("##figure", nullptr, kFlags)) panel.draw(context);
  ImGui::End();
  ImGui::PopStyleVar(3);
}

void prepare_fonts(GuiContext& gui, const Workspace& workspace) {
  if (const TraceTab* tab = workspace.ready())
    widgets::ensure_glyphs(gui.fonts(), unusual_code_points(tab->source->token_texts()));
}

}  // namespace kvloupe::shell
