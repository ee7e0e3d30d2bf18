// `kvloupe methods`: what can be asked of the selection methods.
#include "app/cli/commands.h"
#include "core/base/units.h"
#include "core/selection/method_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using selection::BudgetUse;
using selection::MethodInfo;
using selection::ParamInfo;
using selection::ParamType;

const char* name_of(ParamType type) {
  switch (type) {
    case ParamType::Int:
      return "int";
    case ParamType::Float:
      return "float";
    case ParamType::Bool:
      return "bool";
    case ParamType::Enum:
      return "enum";
    case ParamType::Path:
      return "path";
  }
  return "";
}

const char* name_of(BudgetUse use) {
  switch (use) {
    case BudgetUse::None:
      return "none";
    case BudgetUse::Required:
      return "required";
    case BudgetUse::Optional:
      return "optional";
  }
  return "";
}

const char* name_of(trace::Granularity granularity) {
  switch (granularity) {
    case trace::Granularity::Token:
      return "token";
    case trace::Granularity::Page:
      return "page";
    case trace::Granularity::Block:
      return "block";
    case trace::Granularity::Lane:
      return "lane";
    case trace::Granularity::None:
      return "none";
  }
  return "";
}

const char* name_of(trace::RowAxis axis) {
  switch (axis) {
    case trace::RowAxis::KvHead:
      return "kv_head";
    case trace::RowAxis::QHead:
      return "q_head";
    case trace::RowAxis::Subgroup:
      return "subgroup";
  }
  return "";
}

const char* name_of(trace::StateAction action) {
  return action == trace::StateAction::Eviction ? "eviction" : "visibility";
}

// All parameters in the order of the canonical text.
std::vector<ParamInfo> params_of(const MethodInfo& method) {
  std::vector<ParamInfo> params;
  if (method.budget != BudgetUse::None) params = selection::common_params();
  for (ParamInfo& param : params)
    if (param.name == "budget_scope" && !method.accepts_scope_all) param.choices = {"past"};
  params.insert(params.end(), method.params.begin(), method.params.end());
  return params;
}

bool is_numeric(const ParamInfo& param) {
  return param.type == ParamType::Int || param.type == ParamType::Float;
}

std::string range_of(const ParamInfo& param) {
  if (param.type == ParamType::Bool) return "0|1";
  if (!is_numeric(param)) return fmt::format("{}", fmt::join(param.choices, "|"));
  return fmt::format("{} {} to {}{}", param.min_exclusive ? "above" : "from",
                     format_shortest(param.min), format_shortest(param.max),
                     param.odd ? ", odd" : "");
}

// A number where the default is one: formulas of the model stay text.
ordered_json default_of(const ParamInfo& param) {
  if (param.type == ParamType::Int)
    if (const auto number = parse_int(param.default_text)) return *number;
  if (param.type == ParamType::Float)
    if (const auto number = parse_double(param.default_text)) return *number;
  if (param.type == ParamType::Bool) return param.default_text == "1" ? 1 : 0;
  return param.default_text;
}

ordered_json json_of(const ParamInfo& param) {
  ordered_json json{{"name", param.name},
                    {"type", name_of(param.type)},
                    {"default", default_of(param)},
                    {"range", range_of(param)},
                    {"meaning", param.meaning}};
  if (is_numeric(param)) {
    json["min"] = param.min;
    json["max"] = param.max;
    json["min_exclusive"] = param.min_exclusive;
  }
  if (param.type == ParamType::Enum) json["choices"] = param.choices;
  return json;
}

ordered_json json_of(const MethodInfo& method) {
  ordered_json json{
      {"id", method.id},       {"title", method.title},       {"summary", method.summary},
      {"paper", method.paper}, {"evidence", method.evidence}, {"deviation", method.deviation}};
  json["parameters"] = ordered_json::array();
  for (const ParamInfo& param : params_of(method)) json["parameters"].push_back(json_of(param));
  json["needs"] = method.needs;
  json["state_action"] = name_of(method.state_action);
  json["granularity"] = name_of(method.granularity);
  json["row_axis"] = name_of(method.row_axis);
  json["budget"] = name_of(method.budget);
  return json;
}

std::string text_of(const MethodInfo& method) {
  std::string text = fmt::format("{}  {}\n    {}\n    paper: {}\n", method.id, method.title,
                                 method.summary, method.paper);
  if (!method.deviation.empty()) text += fmt::format("    differs: {}\n", method.deviation);
  text += fmt::format(
      "    {}, {} granularity, needs {}\n", name_of(method.state_action),
      name_of(method.granularity),
      method.needs.empty() ? "positions only" : fmt::format("{}", fmt::join(method.needs, ", ")));
  for (const ParamInfo& param : params_of(method))
    text += fmt::format("    {}={}  {}; {}\n", param.name, param.default_text, range_of(param),
                        param.meaning);
  return text;
}

void print_methods(bool as_json) {
  if (as_json) {
    ordered_json json{{"methods", ordered_json::array()}};
    for (const MethodInfo& method : selection::catalogue())
      json["methods"].push_back(json_of(method));
    fmt::print("{}\n", json.dump());
    return;
  }
  std::string text;
  for (const MethodInfo& method : selection::catalogue()) text += text_of(method) + "\n";
  fmt::print("{}", text);
}

}  // namespace

void add_methods_command(CLI::App& program, const GlobalOptions&) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      program.add_subcommand("methods", "the selection methods and their parameters");
  command->add_flag("--json", *as_json, "as JSON");
  command->callback([as_json] { print_methods(*as_json); });
}

}  // namespace kvloupe::cli
