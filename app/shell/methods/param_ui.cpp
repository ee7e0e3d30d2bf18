#include "app/shell/methods/param_ui.h"

#include "app/state/method_groups.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using selection::ParamInfo;
using selection::ParamType;

void int_ui(const ParamInfo& param, std::string& value, std::int64_t most_tokens) {
  const char* name = param.name.c_str();
  if (value.empty() && !parse_int(param.default_text)) {
    ImGui::InputTextWithHint(name, param.default_text.c_str(), &value,
                             ImGuiInputTextFlags_CharsDecimal);
    return;
  }
  int number = static_cast<int>(parse_int(value).value_or(0));
  bool edited = false;
  const bool budget = param.name == "budget_tokens";
  if (budget)
    edited = ImGui::InputInt(name, &number, 16, 128);
  else
    edited = ImGui::InputInt(name, &number, param.odd ? 2 : 1, param.odd ? 10 : 8);
  if (!edited) return;
  const double most =
      budget ? static_cast<double>(std::max<std::int64_t>(1, most_tokens)) : param.max;
  number = static_cast<int>(std::clamp<double>(number, param.min, std::max(param.min, most)));
  value = std::to_string(number);
}

void float_ui(const ParamInfo& param, std::string& value) {
  double number = parse_double(value).value_or(0);
  if (ImGui::InputDouble(param.name.c_str(), &number, 0.05, 0.1, "%g"))
    value = format_shortest(std::clamp(number, param.min, std::max(param.min, param.max)));
}

// A file, or one of the words that stand in for one.
bool path_ui(const ParamInfo& param, std::string& value) {
  bool changed = false;
  if (param.name == "basis") {
    for (const char* word : {"auto", "self"}) {
      if (ImGui::RadioButton(word, value == word)) {
        value = word;
        changed = true;
      }
      ImGui::SameLine();
    }
  }
  ImGui::InputText(param.name.c_str(), &value);
  return changed || ImGui::IsItemDeactivatedAfterEdit();
}

bool enum_ui(const ParamInfo& param, std::string& value) {
  if (!ImGui::BeginCombo(param.name.c_str(), value.c_str())) return false;
  bool changed = false;
  for (const std::string& choice : param.choices)
    if (ImGui::Selectable(choice.c_str(), choice == value)) {
      value = choice;
      changed = true;
    }
  ImGui::EndCombo();
  return changed;
}

}  // namespace

bool param_ui(const ParamInfo& param, std::string& value, const std::string& value_of_default,
              std::int64_t most) {
  bool changed = false;
  ImGui::SetNextItemWidth(widgets::em(10));
  switch (param.type) {
    case ParamType::Int:
      int_ui(param, value, most);
      changed = ImGui::IsItemDeactivatedAfterEdit();
      break;
    case ParamType::Float:
      float_ui(param, value);
      changed = ImGui::IsItemDeactivatedAfterEdit();
      break;
    case ParamType::Bool: {
      bool on = value == "1";
      changed = ImGui::Checkbox(param.name.c_str(), &on);
      if (changed) value = on ? "1" : "0";
      break;
    }
    case ParamType::Enum: changed = enum_ui(param, value); break;
    case ParamType::Path: changed = path_ui(param, value); break;
  }
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s", state::help_of(param, value_of_default).c_str());
  return changed;
}

bool params_ui(state::MethodDraft& draft, const state::MethodDraft& defaults, std::int64_t most) {
  bool changed = false;
  for (const ParamInfo* param : draft.params()) {
    const std::string before = draft.value(param->name);
    std::string value = before;
    changed |= param_ui(*param, value, defaults.value(param->name), most);
    if (value != before) draft.set(param->name, value);
  }
  return changed;
}

}  // namespace kvloupe::shell
