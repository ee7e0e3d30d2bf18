#include "app/shell/methods/method_finder.h"

#include "app/state/method_groups.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

namespace kvloupe::shell {
namespace {

// Title and id: lists show the one, SPECs, chips and captions the other.
std::string named(const selection::MethodInfo& method) {
  return fmt::format("{}  ({})", method.title, method.id);
}

void id_ui(const widgets::Palette& palette, const std::string& id) {
  ImGui::SameLine(0, widgets::em(0.8F));
  const widgets::FontScope mono(widgets::Type::Number);
  widgets::text_colored(palette.muted, id);
}

// True when it was pressed.
bool method_ui(const widgets::Palette& palette, const selection::MethodInfo& method, bool here,
               const char* unfit, const std::string& reason) {
  if (!reason.empty()) ImGui::PushStyleColor(ImGuiCol_Text, palette.faint);
  const bool pressed =
      ImGui::Selectable(fmt::format("{}##{}", method.title, method.id).c_str(), here);
  const bool hovered = ImGui::IsItemHovered();
  id_ui(palette, method.id);
  if (!reason.empty()) {
    ImGui::SameLine(0, widgets::em(0.8F));
    ImGui::TextUnformatted(unfit);
    ImGui::PopStyleColor();
  }
  if (!hovered) return pressed;
  widgets::tooltip(widgets::em(30), [&palette, &method, reason] {
    widgets::text_wrapped(palette.text, method.summary);
    widgets::text_wrapped(palette.muted, method.paper);
    if (!reason.empty()) widgets::text_wrapped(palette.warning, reason);
  });
  return pressed;
}

}  // namespace

const selection::MethodInfo* MethodFinder::draw(
    const widgets::Palette& palette, const std::string& id, const char* unfit,
    const std::function<std::string(const std::string&)>& reason_of) {
  const selection::MethodInfo* info = selection::find_method(id);
  ImGui::SetNextItemWidth(-1);
  ImGui::SetNextWindowSizeConstraints({widgets::em(26), 0}, {widgets::em(40), widgets::em(34)});
  const std::string shown = info != nullptr ? named(*info) : "";
  if (!ImGui::BeginCombo("##method", shown.c_str(), ImGuiComboFlags_HeightLargest)) return nullptr;
  if (ImGui::IsWindowAppearing()) {
    query_.clear();
    ImGui::SetKeyboardFocusHere();
  }
  widgets::escape_closes_popup();
  ImGui::SetNextItemWidth(-1);
  const bool entered = ImGui::InputTextWithHint("##find", "Find a method, an author, a paper",
                                                &query_, ImGuiInputTextFlags_EnterReturnsTrue);
  const auto groups = state::method_groups(query_);
  const selection::MethodInfo* taken = nullptr;
  for (const state::MethodGroup& group : groups) {
    ImGui::SeparatorText(group.title.c_str());
    for (const selection::MethodInfo* method : group.methods)
      if (method_ui(palette, *method, method->id == id, unfit, reason_of(method->id)))
        taken = method;
  }
  if (groups.empty()) widgets::text_colored(palette.muted, "No method has all these words.");
  if (entered && !groups.empty()) taken = groups.front().methods.front();
  if (taken != nullptr) ImGui::CloseCurrentPopup();
  ImGui::EndCombo();
  return taken;
}

}  // namespace kvloupe::shell
