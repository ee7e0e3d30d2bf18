// See figure_page.h.
#include "app/figure/figure_page.h"

#include "app/state/token_text.h"
#include "app/widgets/fonts.h"

namespace kvloupe::figure {

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

void prepare_fonts(GuiContext& gui, const state::Place& place) {
  if (!place.empty())
    widgets::ensure_glyphs(gui.fonts(),
                           state::unusual_code_points(place.trace->session->token_texts()));
}

}  // namespace kvloupe::figure
