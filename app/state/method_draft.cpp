// See method_draft.h.
#include "app/state/method_draft.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/selection/spec/default_budget.h"

namespace kvloupe::state {
namespace {

std::map<std::string, std::string> values_of(const std::string& spec,
                                             const selection::ModelShape& shape) {
  auto parsed = selection::MethodSpec::parse(spec);
  const bool model_known = shape.num_layers > 0;
  if (model_known) parsed = parsed.resolved(shape);
  const auto parameters = parsed.parameters();
  std::map<std::string, std::string> values(parameters.begin(), parameters.end());
  if (model_known) return values;
  for (const selection::ParamInfo* param :
       selection::params_with(parsed.info(), {parameters.begin(), parameters.end()})) {
    std::string& value = values.at(param->name);
    if (param->type == selection::ParamType::Int && !parse_int(value)) value.clear();
  }
  return values;
}

// A budget: 0 is none.
bool is_given(const std::string& budget) { return !budget.empty() && budget != "0"; }

}  // namespace

MethodDraft::MethodDraft(const std::string& spec, const selection::ModelShape& shape) {
  id_ = selection::MethodSpec::parse(spec).id();
  values_ = values_of(spec, shape);
  note_budget();
}

void MethodDraft::note_budget() {
  for (const char* name : {"budget_tokens", "budget_ratio"})
    if (is_given(value(name))) budget_ = {name, value(name)};
}

void MethodDraft::keep_budget_of(const MethodDraft& before) {
  if (budget_.first.empty()) budget_ = before.budget_;
}

void MethodDraft::change_method(const std::string& id, const selection::ModelShape& shape,
                                std::int64_t num_tokens) {
  const selection::MethodInfo* info = selection::find_method(id);
  if (info == nullptr) return;
  const std::map<std::string, std::string> before = values_;
  id_ = id;
  try {
    values_ = values_of(id, shape);
  } catch (const Error&) {
    // It cannot stand without a parameter (a path, say): begin with the plain defaults.
    values_.clear();
    for (const selection::ParamInfo* param : selection::params_with(*info, {}))
      values_[param->name] = param->default_text;
  }
  // Threshold methods begin without a budget: one is wrong unless they are told to rank blocks.
  if (info->budget == selection::BudgetUse::Optional) {
    values_["budget_tokens"] = "0";
    return;
  }
  for (const selection::ParamInfo& param : selection::common_params(*info)) {
    const auto kept = before.find(param.name);
    if (values_.count(param.name) == 0 || kept == before.end()) continue;
    if (param.name == "budget_scope" && !info->accepts_scope_all) continue;
    values_[param.name] = kept->second;
  }
  const auto names = [&](const char* budget) {
    const auto value = before.find(budget);
    return value != before.end() && is_given(value->second);
  };
  if (info->budget == selection::BudgetUse::Required && !names("budget_tokens") &&
      !names("budget_ratio")) {
    if (budget_.first.empty())
      values_["budget_tokens"] = std::to_string(selection::default_budget(num_tokens));
    else
      set(budget_.first, budget_.second);
  }
}

MethodDraft MethodDraft::defaults(const selection::ModelShape& shape,
                                  std::int64_t num_tokens) const {
  MethodDraft draft;
  draft.change_method(id_, shape, num_tokens);
  return draft;
}

std::vector<const selection::ParamInfo*> MethodDraft::params() const {
  const selection::MethodInfo* info = selection::find_method(id_);
  if (info == nullptr) return {};
  return selection::params_with(*info, {values_.begin(), values_.end()});
}

const std::string& MethodDraft::value(const std::string& name) const {
  static const std::string none;
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : none;
}

void MethodDraft::set(const std::string& name, const std::string& value) {
  values_[name] = value;
  // Some parameters exist only beside this value: they begin with its defaults.
  for (const selection::ParamInfo* param : params())
    if (param->only_for == name + "=" + value) values_[param->name] = param->default_text;
  if (name == "budget_ratio" && is_given(value)) values_["budget_tokens"] = "0";
  if (name == "budget_tokens" && is_given(value)) values_["budget_ratio"] = "0";
  note_budget();
}

std::string MethodDraft::spec() const {
  std::string text = id_;
  for (const selection::ParamInfo* param : params()) {
    const std::string& value = this->value(param->name);
    if (value.empty()) continue;
    text += (text == id_ ? ":" : ",") + param->name + "=" + value;
  }
  return text;
}

std::string MethodDraft::short_spec() const {
  std::string text = id_;
  for (const auto& [name, value] : selection::MethodSpec::parse(spec()).not_default())
    text += (text == id_ ? ":" : ",") + name + "=" + value;
  return text;
}

std::string MethodDraft::problem() const {
  try {
    selection::MethodSpec::parse(spec());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace kvloupe::state
