// See param_ui.h.
#include "app/shell/methods/param_ui.h"

#include "app/state/method_groups.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::shell {
namespace {

using selection::ParamInfo;
using selection::ParamType;

constexpr const char* kBudget = "budget_tokens";
constexpr double kWide = 64;  // numbers of so many steps or more have a slider by ratio

std::string label_of(const ParamControl& control) {
  return (control.named ? "" : "##") + control.param.name;
}

// Where a slider's number may go; nothing to slide through where `least` is not below `most`.
struct Range {
  double least = 0, most = 0;
  bool by_ratio = false;

  bool slides() const { return least < most; }
  ImGuiSliderFlags flags() const {
    return by_ratio ? ImGuiSliderFlags_Logarithmic : ImGuiSliderFlags_None;
  }
};

Range range_of_int(const ParamInfo& param, const ParamRoom& room) {
  constexpr double kMostSteps = 4096;  // a bound beyond these is none that anyone slides to
  if (param.name == kBudget)
    return {1, static_cast<double>(room.tokens), static_cast<double>(room.tokens) > kWide};
  double most = param.max;
  if (const auto found = room.most.find(param.name); found != room.most.end())
    most = std::min(most, found->second);
  if (most - param.min > kMostSteps) return {};
  return {param.min, most, most - param.min > kWide};
}

Range range_of_float(const ParamInfo& param, double value) {
  const double size = param.max - param.min;
  if (!(size <= 1e6)) return {};
  // Of a threshold of 0.0003 the numbers near it count, not those near 1.
  constexpr double kSmall = 0.02;
  const double usual = parse_double(param.default_text).value_or(value);
  const bool by_ratio = usual > 0 && usual < kSmall * size;
  const double least = param.min_exclusive ? param.min + 0.01 * size : param.min;
  return {least, param.max, by_ratio};
}

// While a slider is dragged its number is not final; typed numbers are none before they are complete.
Edit edit_of_item() {
  if (ImGui::IsItemDeactivatedAfterEdit()) return Edit::Done;
  return ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left) ? Edit::Live
                                                                            : Edit::None;
}

// Before a slider, whose pixels are too few for single steps: -1, 0 or 1. The slider after them has the
// rest of the width.
int steps_ui(const std::string& name) {
  const float whole = ImGui::CalcItemWidth(), gap = ImGui::GetStyle().ItemInnerSpacing.x / 2;
  const ImVec2 size(ImGui::GetFrameHeight(), 0);
  int step = 0;
  if (ImGui::Button(fmt::format("\u2212##less {}", name).c_str(), size)) step = -1;
  ImGui::SameLine(0, gap);
  if (ImGui::Button(fmt::format("+##more {}", name).c_str(), size)) step = 1;
  ImGui::SameLine(0, gap);
  ImGui::SetNextItemWidth(std::max(whole - 2 * (size.x + gap), widgets::em(3)));
  return step;
}

std::string text_of_int(const ParamControl& control, double number) {
  const ParamInfo& param = control.param;
  double most = param.max;
  if (param.name == kBudget && control.room.tokens > 0)
    most = static_cast<double>(control.room.tokens);
  auto whole =
      static_cast<std::int64_t>(std::clamp<double>(number, param.min, std::max(param.min, most)));
  if (param.odd && whole % 2 == 0) whole += static_cast<double>(whole) < most ? 1 : -1;
  return std::to_string(whole);
}

Edit int_slider_ui(const ParamControl& control, const Range& range, std::string& value) {
  const ParamInfo& param = control.param;
  int number = static_cast<int>(parse_int(value).value_or(0));
  const int by = steps_ui(param.name);
  const bool moved =
      ImGui::SliderInt(label_of(control).c_str(), &number, static_cast<int>(range.least),
                       static_cast<int>(range.most), "%d", range.flags());
  if (moved) value = text_of_int(control, number);
  if (by == 0) return edit_of_item();
  value = text_of_int(control, number + by * (param.name == kBudget ? 16 : param.odd ? 2 : 1));
  return Edit::Done;
}

Edit int_ui(const ParamControl& control, std::string& value) {
  const ParamInfo& param = control.param;
  const std::string label = label_of(control);
  if (value.empty() && !parse_int(param.default_text)) {
    ImGui::InputTextWithHint(label.c_str(), param.default_text.c_str(), &value,
                             ImGuiInputTextFlags_CharsDecimal);
    return ImGui::IsItemDeactivatedAfterEdit() ? Edit::Done : Edit::None;
  }
  if (const Range range = range_of_int(param, control.room); range.slides())
    return int_slider_ui(control, range, value);
  int number = static_cast<int>(parse_int(value).value_or(0));
  const bool edited =
      param.name == kBudget
          ? ImGui::InputInt(label.c_str(), &number, 16, 128)
          : ImGui::InputInt(label.c_str(), &number, param.odd ? 2 : 1, param.odd ? 10 : 8);
  if (edited) value = text_of_int(control, number);
  return ImGui::IsItemDeactivatedAfterEdit() ? Edit::Done : Edit::None;
}

Edit float_ui(const ParamControl& control, std::string& value) {
  const ParamInfo& param = control.param;
  const auto clamped = [&](double number) {
    return std::clamp(number, param.min, std::max(param.min, param.max));
  };
  double number = parse_double(value).value_or(0);
  const Range range = range_of_float(param, number);
  if (!range.slides()) {
    if (ImGui::InputDouble(label_of(control).c_str(), &number, 0.05, 0.1, "%g"))
      value = format_shortest(clamped(number));
    return ImGui::IsItemDeactivatedAfterEdit() ? Edit::Done : Edit::None;
  }
  const int by = steps_ui(param.name);
  // The format says how small a number by ratio can be, and how a dragged one is rounded.
  const bool moved =
      ImGui::SliderScalar(label_of(control).c_str(), ImGuiDataType_Double, &number, &range.least,
                          &range.most, range.by_ratio ? "%.6f" : "%.3g", range.flags());
  if (moved) value = format_shortest(clamped(number));
  if (by == 0) return edit_of_item();
  number = range.by_ratio ? number * (by > 0 ? 1.25 : 0.8)
                          : number + by * 0.05 * (range.most - range.least);
  number = parse_double(fmt::format("{:.3g}", number)).value_or(number);
  value = format_shortest(std::clamp(number, range.least, range.most));
  return Edit::Done;
}

// A file, or one of the words that stand in for one.
Edit path_ui(const ParamControl& control, std::string& value) {
  bool changed = false;
  if (control.param.name == "basis") {
    for (const char* word : {"auto", "self"}) {
      if (ImGui::RadioButton(word, value == word)) {
        value = word;
        changed = true;
      }
      ImGui::SameLine();
    }
  }
  ImGui::InputText(label_of(control).c_str(), &value);
  return changed || ImGui::IsItemDeactivatedAfterEdit() ? Edit::Done : Edit::None;
}

Edit enum_ui(const ParamControl& control, std::string& value) {
  if (!ImGui::BeginCombo(label_of(control).c_str(), value.c_str())) return Edit::None;
  Edit edit = Edit::None;
  for (const std::string& choice : control.param.choices)
    if (ImGui::Selectable(choice.c_str(), choice == value)) {
      value = choice;
      edit = Edit::Done;
    }
  ImGui::EndCombo();
  return edit;
}

Edit flag_ui(const ParamControl& control, std::string& value) {
  bool on = value == "1";
  if (!ImGui::Checkbox(label_of(control).c_str(), &on)) return Edit::None;
  value = on ? "1" : "0";
  return Edit::Done;
}

Edit control_ui(const ParamControl& control, std::string& value) {
  switch (control.param.type) {
    case ParamType::Int: return int_ui(control, value);
    case ParamType::Float: return float_ui(control, value);
    case ParamType::Bool: return flag_ui(control, value);
    case ParamType::Enum: return enum_ui(control, value);
    case ParamType::Path: return path_ui(control, value);
  }
  return Edit::None;
}

}  // namespace

Edit param_ui(const ParamControl& control, std::string& value) {
  ImGui::SetNextItemWidth(control.named ? widgets::em(10) : -FLT_MIN);
  ImGui::BeginGroup();
  const Edit edit = control_ui(control, value);
  ImGui::EndGroup();
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s", state::help_of(control.param, control.default_here).c_str());
  return edit;
}

namespace {

bool is_shown(const ParamInfo& param, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::find(only, param.name) != only.end();
}

Edit param_of_draft_ui(state::MethodDraft& draft, const ParamControl& control) {
  const std::string before = draft.value(control.param.name);
  std::string value = before;
  const Edit edit = param_ui(control, value);
  if (value != before) draft.set(control.param.name, value);
  return edit;
}

}  // namespace

Edit params_ui(state::MethodDraft& draft, const state::MethodDraft& defaults,
               const ParamRoom& room) {
  Edit edit = Edit::None;
  for (const ParamInfo* param : draft.params())
    edit = std::max(edit, param_of_draft_ui(draft, {*param, defaults.value(param->name), room}));
  return edit;
}

Edit params_table_ui(const widgets::Palette& palette, state::MethodDraft& draft,
                     const state::MethodDraft& defaults, const ParamRoom& room,
                     const std::vector<std::string>& only) {
  // The names have what they need. Where that leaves too little, each stands above its control.
  float names = 0;
  for (const ParamInfo* param : draft.params())
    if (is_shown(*param, only))
      names = std::max(names, ImGui::CalcTextSize(param->name.c_str()).x + widgets::em(0.3F));
  const bool above = ImGui::GetContentRegionAvail().x < names + widgets::em(9);
  if (!ImGui::BeginTable("##parameters", above ? 1 : 2)) return Edit::None;
  if (!above) ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, names);
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
  Edit edit = Edit::None;
  for (const ParamInfo* param : draft.params()) {
    if (!is_shown(*param, only)) continue;
    const std::string& usual = defaults.value(param->name);
    ImGui::TableNextColumn();
    ImGui::AlignTextToFramePadding();
    widgets::text_colored(draft.value(param->name) != usual ? palette.text : palette.muted,
                          widgets::elided(param->name, ImGui::GetContentRegionAvail().x));
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", state::help_of(*param, usual).c_str());
    ImGui::TableNextColumn();
    edit = std::max(edit, param_of_draft_ui(draft, {*param, usual, room, false}));
  }
  ImGui::EndTable();
  return edit;
}

}  // namespace kvloupe::shell
