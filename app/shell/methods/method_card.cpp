#include "app/shell/methods/method_card.h"

#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

bool begin_lines(const char* id, float heading) {
  if (!ImGui::BeginTable(id, 2)) return false;
  // In a narrow window the texts have at least half of it.
  const float width = std::min(widgets::em(heading), ImGui::GetContentRegionAvail().x / 2);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, width);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
  return true;
}

void parameters_ui(const widgets::Palette& palette, const selection::MethodSpec& spec) {
  if (!begin_lines("##parameters", 9)) return;
  const auto& params = selection::params_with(spec.info(), {});
  const auto said = spec.not_default();
  for (const auto& [name, value] : spec.parameters()) {
    ImGui::TableNextColumn();
    widgets::text_colored(palette.muted, widgets::elided(name, ImGui::GetContentRegionAvail().x));
    if (ImGui::IsItemHovered())
      for (const selection::ParamInfo* param : params)
        if (param->name == name) widgets::tooltip("%s", state::help_of(*param, "").c_str());
    ImGui::TableNextColumn();
    const bool own =
        std::ranges::any_of(said, [&name = name](const auto& one) { return one.first == name; });
    widgets::text_wrapped(own ? palette.text : palette.muted, state::readable_name(value));
  }
  ImGui::EndTable();
}

}  // namespace

void method_help_ui(const widgets::Palette& palette, const selection::MethodInfo& method) {
  if (!begin_lines("##help", 4.5F)) return;
  for (const state::HelpLine& line : state::help_of(method)) {
    ImGui::TableNextColumn();
    widgets::text_colored(palette.muted, line.heading);
    ImGui::TableNextColumn();
    widgets::text_wrapped(palette.text, line.text);
  }
  ImGui::EndTable();
}

void MethodCard::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  if (!workspace.has_trace()) return;
  const auto& stand_in = workspace.explained.method();
  const state::MethodChoice& method = stand_in ? *stand_in : workspace.method();
  if (!method.known())
    return widgets::empty_ui(palette, "Nothing is known of this method but what it kept.");
  {
    const widgets::FontScope strong(widgets::Type::Title);
    widgets::text_wrapped(palette.text, selection::title_of(*method.spec));
  }
  {
    const widgets::FontScope mono(widgets::Type::Number);
    widgets::text_colored(palette.muted, method.spec->id());
  }
  if (stand_in)
    widgets::text_wrapped(palette.warning,
                          fmt::format("Shown in place of {}.", workspace.method().id()));
  widgets::text_wrapped(palette.text, method.spec->info().summary);
  ImGui::SeparatorText("Parameters");
  // What stands in for the method shown is no choice of the user's: it has nothing to be changed.
  const state::Slot slot = workspace.selection().shown;
  stand_in ? parameters_ui(palette, *method.spec)
           : knobs_[static_cast<std::size_t>(slot)].draw(workspace, palette, slot);
  ImGui::SeparatorText("Paper");
  method_help_ui(palette, method.spec->info());
}

}  // namespace kvloupe::shell
