// What a text names: one method, or all of them with parameters. Free of Torch.
#include "core/base/error.h"
#include "core/replay/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using selection::ParamValues;

// Which of them the method takes.
ParamValues taken_by(const selection::MethodInfo& info, ParamValues values) {
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
bool lacks_file(const selection::MethodInfo& info, const ParamValues& values) {
  const auto params = selection::params_with(info, values);
  return std::any_of(params.begin(), params.end(), [&](const selection::ParamInfo* param) {
    return param->required && values.count(param->name) == 0;
  });
}

// The SPEC without what it lacks.
std::string text_of(const selection::MethodInfo& info, const ParamValues& values) {
  std::string text = info.id;
  for (const selection::ParamInfo* param : selection::params_with(info, values))
    if (const auto found = values.find(param->name); found != values.end())
      text += fmt::format("{}{}={}", text == info.id ? ':' : ',', param->name, found->second);
  return text;
}

}  // namespace

std::vector<MethodSpec> MethodList::required_specs() const {
  std::vector<MethodSpec> specs;
  for (const MethodName& method : methods) specs.push_back(method.required_spec());
  return specs;
}

MethodList parse_methods(const std::string& text) {
  if (selection::method_id(text) != "all") return {{MethodName(text)}, {}};
  return all_methods(selection::values_of_text(text));
}

MethodList all_methods(const ParamValues& given) {
  ParamValues untaken = given;
  MethodList list;
  for (const selection::MethodInfo& info : selection::catalogue()) {
    const ParamValues values = taken_by(info, given);
    std::erase_if(untaken, [&](const auto& value) { return values.contains(value.first); });
    try {
      list.methods.emplace_back(MethodSpec::of(info, values));
    } catch (const Error& error) {
      if (!lacks_file(info, values)) throw;
      list.unavailable.push_back({text_of(info, values), error});
    }
  }
  for (const auto& [name, value] : untaken)
    throw usage_error(fmt::format("all: {}={} is not valid", name, value),
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
