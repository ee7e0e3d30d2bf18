// What a text names: one method, or all of them with parameters. Free of Torch.
#include "core/base/error.h"
#include "core/replay/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;

// One name=value of "all:...".
struct Parameter {
  std::string name, value, text;
  bool taken = false;  // by any method
};

std::vector<Parameter> parameters_of(std::string_view text) {
  std::vector<Parameter> parameters;
  while (true) {
    const auto comma = text.find(',');
    const std::string item(text.substr(0, comma));
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error(fmt::format("all: '{}' is not a parameter", item),
                        "parameters are written name=value, separated by commas",
                        "see kvloupe methods");
    parameters.push_back({item.substr(0, equals), item.substr(equals + 1), item});
    if (comma == std::string_view::npos) return parameters;
    text.remove_prefix(comma + 1);
  }
}

// Which of the parameters the method takes.
selection::ParamValues taken_by(const selection::MethodInfo& info,
                                const std::vector<Parameter>& parameters) {
  selection::ParamValues values;
  for (const Parameter& parameter : parameters) values[parameter.name] = parameter.value;
  if (!info.accepts_scope_all && values.count("budget_scope") > 0 &&
      values["budget_scope"] == "all")
    values.erase("budget_scope");
  const bool ranks_blocks = values.count("lowering") > 0 && values["lowering"] == "budget";
  if (info.budget == selection::BudgetUse::Optional && !ranks_blocks) {
    values.erase("budget_tokens");
    values.erase("budget_ratio");
  }
  const auto params = selection::params_with(info, values);
  std::erase_if(values, [&](const auto& value) {
    return std::none_of(params.begin(), params.end(), [&](const selection::ParamInfo* param) {
      return param->name == value.first;
    });
  });
  return values;
}

// A parameter without a default that is not among the values.
bool lacks_file(const selection::MethodInfo& info, const selection::ParamValues& values) {
  const auto params = selection::params_with(info, values);
  return std::any_of(params.begin(), params.end(), [&](const selection::ParamInfo* param) {
    return param->required && values.count(param->name) == 0;
  });
}

}  // namespace

std::vector<MethodSpec> MethodList::required_specs() const {
  std::vector<MethodSpec> specs;
  for (const MethodName& method : methods) specs.push_back(method.required_spec());
  return specs;
}

MethodList parse_methods(const std::string& text) {
  const std::string_view whole = text;
  if (whole != "all" && !whole.starts_with("all:")) return {{MethodName(text)}, {}};
  std::vector<Parameter> parameters;
  if (whole != "all") parameters = parameters_of(whole.substr(4));
  MethodList list;
  for (const selection::MethodInfo& info : selection::catalogue()) {
    const selection::ParamValues values = taken_by(info, parameters);
    std::string spec = info.id;
    for (Parameter& parameter : parameters) {
      if (values.count(parameter.name) == 0) continue;
      parameter.taken = true;
      spec += fmt::format("{}{}", spec == info.id ? ':' : ',', parameter.text);
    }
    try {
      list.methods.emplace_back(MethodSpec::parse(spec));
    } catch (const Error& error) {
      if (!lacks_file(info, values)) throw;
      list.unavailable.push_back({spec, error});
    }
  }
  for (const Parameter& parameter : parameters)
    if (!parameter.taken)
      throw usage_error(fmt::format("all: {} is not valid", parameter.text),
                        "no method has such a parameter", "see kvloupe methods");
  return list;
}

MethodList parse_methods(const std::vector<std::string>& texts) {
  MethodList all;
  for (const std::string& text : texts) {
    MethodList list = parse_methods(text);
    std::move(list.methods.begin(), list.methods.end(), std::back_inserter(all.methods));
    std::move(list.unavailable.begin(), list.unavailable.end(),
              std::back_inserter(all.unavailable));
  }
  return all;
}

}  // namespace kvloupe::replay
