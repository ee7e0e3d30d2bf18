#include "app/widgets/segmented.h"

#include "app/widgets/fonts.h"
#include "app/widgets/tooltip.h"

namespace kvloupe::widgets {
namespace {

const std::string& words_of(const Segment& segment, bool brief) {
  return brief && !segment.brief.empty() ? segment.brief : segment.text;
}

float width_of(const std::vector<Segment>& segments, bool brief) {
  float width = 0;
  for (const Segment& segment : segments)
    width += ImGui::CalcTextSize(words_of(segment, brief).c_str()).x + 2 * em(0.6F);
  return width;
}

}  // namespace

std::optional<std::size_t> segmented_ui(const Palette& palette, const char* id,
                                        const std::vector<Segment>& segments, std::size_t chosen) {
  const FontScope small(Type::Caption);
  const bool brief = width_of(segments, false) > ImGui::GetContentRegionAvail().x;
  const float height = ImGui::GetTextLineHeight() + 2 * em(0.2F);
  const float rounding = em(0.3F);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  draw->AddRectFilled(origin, {origin.x + width_of(segments, brief), origin.y + height},
                      palette.raised, rounding);
  std::optional<std::size_t> pressed;
  ImGui::PushID(id);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const std::string& words = words_of(segment, brief);
    const ImVec2 text = ImGui::CalcTextSize(words.c_str());
    if (i > 0) ImGui::SameLine(0, 0);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size(text.x + 2 * em(0.6F), height);
    if (ImGui::InvisibleButton(segment.text.c_str(), size)) pressed = i;
    const ImVec2 end(at.x + size.x, at.y + size.y);
    const ImU32 color = segment.color == 0 ? palette.accent : segment.color;
    if (i == chosen)
      draw->AddRectFilled(at, end, color, rounding);
    else if (ImGui::IsItemHovered())
      draw->AddRectFilled(at, end, palette.line, rounding);
    else if (i > 0 && i != chosen + 1)
      draw->AddLine({at.x, at.y + em(0.3F)}, {at.x, end.y - em(0.3F)}, palette.line);
    draw->AddText({at.x + em(0.6F), at.y + em(0.2F)}, i == chosen ? ink_on(color) : palette.text,
                  words.c_str());
    if (!segment.explained.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      tooltip("%s", segment.explained.c_str());
  }
  ImGui::PopID();
  draw->AddRect(origin, {origin.x + width_of(segments, brief), origin.y + height}, palette.line,
                rounding);
  return pressed;
}

}  // namespace kvloupe::widgets
