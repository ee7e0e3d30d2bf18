#include "app/panels/lasso.h"

#include "app/widgets/fonts.h"

#include <cmath>

namespace kvloupe::panels {

bool Lasso::update(ImDrawList* draw, const widgets::Palette& palette, bool hovered) {
  if (hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    drawing_ = true;
    line_.clear();
  }
  if (!drawing_) return false;
  const ImVec2 mouse = ImGui::GetMousePos();
  if (line_.empty() || std::hypot(mouse.x - line_.back().x, mouse.y - line_.back().y) > 2)
    line_.push_back(mouse);
  const int count = static_cast<int>(line_.size());
  draw->AddConcavePolyFilled(line_.data(), count, widgets::with_alpha(palette.accent, 0.12F));
  draw->AddPolyline(line_.data(), count, palette.accent, ImDrawFlags_Closed, widgets::em(0.1F));
  if (ImGui::IsMouseDown(ImGuiMouseButton_Left)) return false;
  drawing_ = false;
  return line_.size() > 2;
}

bool Lasso::holds(ImVec2 point) const {
  bool inside = false;
  for (std::size_t i = 0, j = line_.size() - 1; i < line_.size(); j = i++) {
    const ImVec2 a = line_[i], b = line_[j];
    if ((a.y > point.y) != (b.y > point.y) &&
        point.x < (b.x - a.x) * (point.y - a.y) / (b.y - a.y) + a.x)
      inside = !inside;
  }
  return inside;
}

}  // namespace kvloupe::panels
