// `kvloupe methods`: what can be asked of the selection methods.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/table_json.h"
#include "core/base/error.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <sstream>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using selection::BudgetUse;
using selection::MethodInfo;
using selection::ParamInfo;
using selection::ParamType;
using table::Cell;

const char* name_of(ParamType type) {
  switch (type) {
    case ParamType::Int: return "int";
    case ParamType::Float: return "float";
    case ParamType::Bool: return "bool";
    case ParamType::Enum: return "enum";
    case ParamType::Path: return "path";
  }
  return "";
}

const char* name_of(BudgetUse use) {
  switch (use) {
    case BudgetUse::None: return "none";
    case BudgetUse::Required: return "required";
    case BudgetUse::Optional: return "optional";
  }
  return "";
}

// What the method does for a decoded token.
const char* decode_of(const MethodInfo& method) {
  if (!method.active_in_decode) return "dense";
  if (method.state_action == trace::StateAction::Visibility &&
      method.granularity == trace::Granularity::Lane)
    return "prune";
  return method.state_action == trace::StateAction::Eviction ? "evict" : "select";
}

// All parameters in the order of the canonical text.
std::vector<ParamInfo> params_of(const MethodInfo& method) {
  std::vector<ParamInfo> params = selection::common_params(method);
  for (ParamInfo& param : params) {
    if (param.name == "budget_scope" && !method.accepts_scope_all) param.choices = {"past"};
    if (param.name == "budget_tokens" && method.budget == BudgetUse::Optional)
      param.default_text = std::to_string(0);
  }
  params.insert(params.end(), method.params.begin(), method.params.end());
  return params;
}

bool is_numeric(const ParamInfo& param) {
  return param.type == ParamType::Int || param.type == ParamType::Float;
}

std::string range_of(const ParamInfo& param) {
  if (param.type == ParamType::Bool) return "0|1";
  if (param.type == ParamType::Path)
    return param.name == "basis" ? "auto, self or a file" : "a file";
  if (!is_numeric(param)) return fmt::format("{}", fmt::join(param.choices, "|"));
  return fmt::format("{} {} to {}{}", param.min_exclusive ? "above" : "from",
                     format_shortest(param.min), format_shortest(param.max),
                     param.odd ? ", odd" : "");
}

// A number where the default is one: formulas of the model stay text.
Cell default_of(const ParamInfo& param) {
  if (param.required) return table::Term{"", "PATH"};
  if (param.type == ParamType::Int)
    if (const auto number = parse_int(param.default_text)) return *number;
  if (param.type == ParamType::Float)
    if (const auto number = parse_double(param.default_text)) return *number;
  if (param.type == ParamType::Bool) return param.default_text == "1" ? 1 : 0;
  return param.default_text;
}

table::Table params_table(const MethodInfo& method) {
  table::Table table{{{"name", "parameter"},
                      {"type", ""},
                      "default",
                      "range",
                      "meaning",
                      {"min", ""},
                      {"max", ""},
                      {"min_exclusive", ""},
                      {"choices", ""},
                      {"required", ""},
                      {"only_for", "with"}},
                     {}};
  for (const ParamInfo& param : params_of(method)) {
    const auto of_number = [&](Cell cell) { return is_numeric(param) ? std::move(cell) : Cell(); };
    table.rows.push_back({param.name, name_of(param.type), default_of(param), range_of(param),
                          param.meaning, of_number(param.min), of_number(param.max),
                          of_number(param.min_exclusive),
                          param.type == ParamType::Enum ? Cell(param.choices) : Cell(),
                          param.required ? Cell(true) : Cell(),
                          param.only_for.empty() ? Cell() : Cell(param.only_for)});
  }
  if (std::all_of(table.rows.begin(), table.rows.end(),
                  [](const auto& row) { return row.back().is_empty(); }))
    table.columns.back().title.clear();
  return table;
}

ordered_json json_of(const MethodInfo& method) {
  ordered_json json{
      {"id", method.id},       {"title", method.title},       {"summary", method.summary},
      {"paper", method.paper}, {"evidence", method.evidence}, {"deviation", method.deviation}};
  json["deviations"] = method.deviations();
  json["paper_spec"] = method.paper_spec;
  json["parameters"] = json_rows(params_table(method));
  json["needs"] = method.needs;
  json["state_action"] = trace::to_text(method.state_action);
  json["granularity"] = trace::to_text(method.granularity);
  json["row_axis"] = trace::to_text(method.row_axis);
  json["budget"] = name_of(method.budget);
  json["decode"] = decode_of(method);
  json["crosses_layers"] = method.crosses_layers;
  json["needs_probe"] = method.needs_probe;
  json["basis"] = method.basis ? ordered_json(trace::name_of(*method.basis)) : nullptr;
  return json;
}

// What one line says of how the method works.
std::string nature_of(const MethodInfo& method) {
  std::string text = fmt::format(
      "{}, {} granularity, needs {}", trace::to_text(method.state_action),
      trace::to_text(method.granularity),
      method.needs.empty() ? "positions only" : fmt::format("{}", fmt::join(method.needs, ", ")));
  const std::string decode = decode_of(method);
  if (decode != "dense")
    text += fmt::format("; {}s at each decoded token too", decode);
  else if (method.granularity == trace::Granularity::Lane)
    text += "; decoded tokens see all keys left, in pruned lanes";
  else
    text += "; decodes densely over the keys left";
  if (method.crosses_layers) text += "; some layers reuse the set of an earlier one";
  if (method.needs_probe) text += "; only on traces captured with a probe (capture --store probe)";
  if (method.basis)
    text +=
        fmt::format("; rotates by a basis of kvloupe calibrate {}", trace::name_of(*method.basis));
  return text;
}

std::string text_of(const MethodInfo& method) {
  std::string text = fmt::format("{}  {}\n    {}\n    paper: {}\n", method.id, method.title,
                                 method.summary, method.paper);
  if (!method.evidence.empty()) text += fmt::format("    follows: {}\n", method.evidence);
  text += fmt::format("    the paper's own: {}\n", method.paper_spec);
  for (const std::string& deviation : method.deviations())
    text += fmt::format("    differs: {}\n", deviation);
  text += fmt::format("    {}\n", nature_of(method));
  const table::Table params = params_table(method);
  if (params.rows.empty()) return text;
  constexpr std::size_t kIndent = 4;
  std::istringstream lines(terminal_text(params, table::kTerminalWidth - kIndent));
  for (std::string line; std::getline(lines, line);)
    text += std::string(kIndent, ' ') + line + "\n";
  return text;
}

void print_methods(const std::string& id, bool as_json) {
  if (!id.empty() && selection::find_method(id) == nullptr)
    throw usage_error(fmt::format("there is no method {}", id), "no method has this id",
                      "see kvloupe methods for all of them");
  ordered_json json{{"methods", ordered_json::array()}};
  std::string text;
  for (const MethodInfo& method : selection::catalogue()) {
    if (!id.empty() && method.id != id) continue;
    json["methods"].push_back(json_of(method));
    text += text_of(method) + (id.empty() ? "\n" : "");
  }
  as_json ? results::add_data(json_text("kvloupe-methods/1", json)) : results::add_text(text);
}

}  // namespace

Command methods_command(const GlobalOptions&) {
  struct Arguments {
    std::string id;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command("methods", "the selection methods and their parameters");
  command.option("id", &arguments->id, "one method, or all of them");
  command.option("--json", &arguments->json, "as JSON");
  command.run = [arguments](const Given&) { print_methods(arguments->id, arguments->json); };
  return command;
}

}  // namespace kvloupe::cli
