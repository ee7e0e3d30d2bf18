#include "app/shell/bars/rail.h"

#include "app/shell/frame/dock_layout.h"
#include "app/state/perspectives.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <array>

namespace kvloupe::shell {
namespace {

using state::Perspective;
using state::RailIcon;

// Drawn, so that no icon font is needed; `r` is half a side.
void icon_ui(RailIcon icon, ImVec2 c, float r, ImU32 ink) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float line = r * 0.22F;
  const auto cell = [&](float x, float y, float width, float height, float alpha) {
    draw->AddRectFilled({c.x + x * r, c.y + y * r}, {c.x + (x + width) * r, c.y + (y + height) * r},
                        widgets::with_alpha(ink, alpha), r * 0.1F);
  };
  switch (icon) {
    case RailIcon::Grid:  // one cell of many
      for (int i = 0; i < 9; ++i)
        cell(-1 + 0.72F * static_cast<float>(i % 3), -1 + 0.72F * static_cast<float>(i / 3), 0.56F,
             0.56F, i == 5 ? 1 : 0.4F);
      break;
    case RailIcon::Rows:  // rows of kept keys
      for (const auto& [x, y, width] : {std::array{-1.0F, -0.9F, 0.5F},
                                        {-0.2F, -0.9F, 0.3F},
                                        {-1.0F, -0.25F, 0.9F},
                                        {0.3F, -0.25F, 0.3F},
                                        {-1.0F, 0.4F, 0.4F},
                                        {-0.3F, 0.4F, 1.3F}})
        cell(x, y, width, 0.45F, 1);
      break;
    case RailIcon::Search:
      draw->AddCircle({c.x - 0.2F * r, c.y - 0.2F * r}, 0.65F * r, ink, 0, line);
      draw->AddLine({c.x + 0.3F * r, c.y + 0.3F * r}, {c.x + r, c.y + r}, ink, line * 1.3F);
      break;
    case RailIcon::Bars:
      cell(-0.95F, 0.1F, 0.5F, 0.9F, 1);
      cell(-0.25F, -0.95F, 0.5F, 1.95F, 1);
      cell(0.45F, -0.4F, 0.5F, 1.4F, 1);
      break;
    case RailIcon::Dots:
      for (const ImVec2 at : {ImVec2{-0.6F, 0.5F}, {-0.2F, 0.1F}, {-0.75F, -0.1F}, {0.05F, 0.65F}})
        draw->AddCircleFilled({c.x + at.x * r, c.y + at.y * r}, 0.19F * r, ink);
      draw->AddCircleFilled({c.x + 0.55F * r, c.y - 0.55F * r}, 0.19F * r, ink);
      draw->AddCircle({c.x + 0.55F * r, c.y - 0.55F * r}, 0.42F * r, ink, 0, line * 0.8F);
      break;
    case RailIcon::Pulse: {
      const ImVec2 points[] = {{c.x - r, c.y + 0.2F * r},        {c.x - 0.45F * r, c.y + 0.2F * r},
                               {c.x - 0.1F * r, c.y - 0.8F * r}, {c.x + 0.3F * r, c.y + 0.8F * r},
                               {c.x + 0.55F * r, c.y},           {c.x + r, c.y}};
      draw->AddPolyline(points, 6, ink, ImDrawFlags_None, line);
      break;
    }
    case RailIcon::Marks:  // answers that are right, and one that is wrong
      for (const float y : {-0.65F, 0.65F}) {
        const ImVec2 tick[] = {{c.x - r, c.y + y * r},
                               {c.x - 0.7F * r, c.y + (y + 0.3F) * r},
                               {c.x - 0.3F * r, c.y + (y - 0.3F) * r}};
        draw->AddPolyline(tick, 3, ink, ImDrawFlags_None, line);
      }
      draw->AddLine({c.x - r, c.y - 0.25F * r}, {c.x - 0.4F * r, c.y + 0.25F * r}, ink, line);
      draw->AddLine({c.x - r, c.y + 0.25F * r}, {c.x - 0.4F * r, c.y - 0.25F * r}, ink, line);
      for (const float y : {-0.65F, 0.0F, 0.65F}) cell(0, y - 0.11F, 1, 0.22F, 1);
      break;
  }
}

// True when it was clicked.
bool entry_ui(const Perspective& perspective, const std::string& dot, bool here, bool enabled,
              bool words, const widgets::Palette& palette) {
  const ImVec2 size(ImGui::GetContentRegionAvail().x, widgets::em(words ? 3.4F : 2.5F));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::BeginDisabled(!enabled);
  const bool clicked = ImGui::InvisibleButton(perspective.id.c_str(), size);
  ImGui::EndDisabled();
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 to(at.x + size.x, at.y + size.y);
  if (here || hovered) draw->AddRectFilled(at, to, here ? palette.raised : palette.line);
  if (here) draw->AddRectFilled(at, {at.x + widgets::em(0.2F), to.y}, palette.accent);
  const ImU32 ink = !enabled ? palette.line : here || hovered ? palette.text : palette.muted;
  icon_ui(perspective.icon, {at.x + size.x / 2, at.y + widgets::em(1.25F)}, widgets::em(0.62F),
          here ? palette.accent : ink);
  if (words) {
    const widgets::FontScope small(widgets::Type::Caption);
    const float width = ImGui::CalcTextSize(perspective.word.c_str()).x;
    draw->AddText({at.x + (size.x - width) / 2, to.y - ImGui::GetFontSize() * 1.4F}, ink,
                  perspective.word.c_str());
  }
  if (!dot.empty())
    draw->AddCircleFilled({at.x + size.x / 2 + widgets::em(0.95F), at.y + widgets::em(0.6F)},
                          widgets::em(0.26F), palette.miss);
  // Who has clicked knows what it is: the tooltip would lie over what was asked for.
  bool* const pressed = ImGui::GetStateStorage()->GetBoolRef(ImGui::GetItemID());
  *pressed = (*pressed || clicked) && hovered;
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled) && !*pressed) {
    std::vector<widgets::TooltipLine> lines{
        {widgets::with_key(perspective.question, "go." + perspective.id)},
        {perspective.summary, 0, true}};
    if (!dot.empty()) lines.push_back({dot, palette.miss});
    if (!enabled) lines.push_back({widgets::with_key("Open a trace first", "open")});
    widgets::tooltip(std::move(lines));
  }
  return clicked;
}

}  // namespace

void Rail::find_dots(state::Workspace& workspace) {
  dots_.clear();
  if (!workspace.has_trace()) return;
  const state::Place& place = workspace.place();
  for (const state::Slot slot : state::kSlots) {
    const state::MethodChoice& method = workspace.method(slot);
    if (method.empty() || (slot == state::Slot::B && method == workspace.method(state::Slot::A)))
      continue;
    const auto dot = spans_[static_cast<std::size_t>(slot)].ask(
        workspace, state::span_dot_question(workspace, method));
    if (!dot || dot->lost == 0 || dot.question.counts.place.trace != place.trace) continue;
    std::string& words = dots_["lost"];
    words += fmt::format("{}{} {}: {} {}", words.empty() ? "" : "\n", state::letter_of(slot),
                         state::label_of(workspace, dot.question.counts.method),
                         state::readable_name(dot.question.counts.span->name), words_of(*dot));
  }
  if (!place.info().complete)
    dots_["ran"] =
        fmt::format("the capture did not end: {} chunks are there", place.info().chunks.size());
}

void Rail::draw(state::Workspace& workspace, const Perspective& shown,
                const widgets::Palette& palette) {
  find_dots(workspace);
  const bool words = !window_form().narrow;
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoScrollbar |
                                      ImGuiWindowFlags_NoScrollWithMouse |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, widgets::em(0.4F)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, widgets::em(0.15F)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, palette.window);
  if (ImGui::BeginViewportSideBar("##rail", ImGui::GetMainViewport(), ImGuiDir_Left,
                                  widgets::em(words ? 5.6F : 2.7F), kFlags)) {
    for (const Perspective& perspective : state::perspectives()) {
      if (perspective.of_results && !workspace.results.is_open()) continue;
      const auto dot = dots_.find(perspective.id);
      const bool enabled = workspace.has_trace() || perspective.of_results;
      if (entry_ui(perspective, dot != dots_.end() ? dot->second : "", &perspective == &shown,
                   enabled, words, palette))
        workspace.cursor.set_perspective(perspective.id);
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

}  // namespace kvloupe::shell
