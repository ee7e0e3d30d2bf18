// See figure_page.h.
#include "app/figure/figure_page.h"

#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/fonts.h"

namespace kvloupe::figure {
namespace {

// Pixels at scale 1 below which heads and legends leave the plots too little room.
constexpr ImVec2 kLeastSize{580, 400};

// A view that may be cut says so: a figure must not pass for a whole one.
void cut_page_ui(panels::DrawContext& context, panels::Panel& panel) {
  const float line = ImGui::GetTextLineHeightWithSpacing();
  ImGui::BeginChild("view", {0, -line}, ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
  panel.draw(context);
  ImGui::EndChild();
  widgets::text_colored(context.palette.warning,
                        widgets::elided("may be cut: 580x400 pixels or more show all of it",
                                        ImGui::GetContentRegionAvail().x));
}

}  // namespace

float page_ui(const std::function<void()>& draw) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize(viewport->Size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(1.6F), widgets::em(1.2F)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  float below = 0;
  if (ImGui::Begin("##figure", nullptr, kFlags)) {
    below = ImGui::GetScrollMaxY();
    draw();
  }
  ImGui::End();
  ImGui::PopStyleVar(3);
  return below;
}

float figure_page_ui(panels::DrawContext& context, panels::Panel& panel,
                     const std::string& letter) {
  return page_ui([&] {
    if (!letter.empty()) {
      const widgets::FontScope title(widgets::Type::Title);
      const ImVec2 at = ImGui::GetCursorScreenPos();
      ImGui::GetWindowDrawList()->AddText({at.x - widgets::em(0.95F), at.y}, context.palette.text,
                                          letter.c_str());
    }
    const ImVec2 size = ImGui::GetMainViewport()->Size;
    const bool small = size.x < kLeastSize.x || size.y < kLeastSize.y;
    small ? cut_page_ui(context, panel) : panel.draw(context);
  });
}

void prepare_fonts(GuiContext& gui, const state::Place& place) {
  if (!place.empty())
    widgets::ensure_glyphs(gui.fonts(),
                           state::unusual_code_points(place.trace->session->token_texts()));
}

}  // namespace kvloupe::figure
