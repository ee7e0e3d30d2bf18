// Parsing, checking and printing of method SPECs.
#include "core/selection/spec/method_spec.h"

#include "core/base/error.h"
#include "core/base/rounded_down.h"
#include "core/base/units.h"
#include "core/selection/spec/default_budget.h"
#include "core/selection/spec/method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kvloupe::selection {
namespace {

constexpr const char* kHelp = "see kvloupe methods";
constexpr const char* kSkipLayers = "skip_layers";
constexpr const char* kBudgetTokens = "budget_tokens";
constexpr const char* kBudgetRatio = "budget_ratio";
const std::string kZero(1,
                        '0');  // g++ 12 warns falsely when a literal of one character is assigned

const ParamInfo* find_param(const std::vector<const ParamInfo*>& params, std::string_view name) {
  for (const ParamInfo* param : params)
    if (param->name == name) return param;
  return nullptr;
}

std::string names_of_params(const std::vector<const ParamInfo*>& params) {
  std::vector<std::string> names;
  for (const ParamInfo* param : params) names.push_back(param->name);
  return names.empty() ? "it has no parameters"
                       : fmt::format("it knows {}", fmt::join(names, ", "));
}

Error bad_value(const MethodInfo& info, const ParamInfo& param, std::string_view value,
                std::string why) {
  return usage_error(fmt::format("{}: {}={} is not valid", info.id, param.name, value),
                     std::move(why), kHelp);
}

std::string describe_range(const ParamInfo& param) {
  return fmt::format("it must be {} {} and at most {}", param.min_exclusive ? "above" : "at least",
                     format_shortest(param.min), format_shortest(param.max));
}

bool in_range(const ParamInfo& param, double value) {
  return (param.min_exclusive ? value > param.min : value >= param.min) && value <= param.max;
}

// The value in its canonical form.
std::string normalise(const MethodInfo& info, const ParamInfo& param, std::string_view value) {
  if (value.empty()) throw bad_value(info, param, value, "the value is empty");
  switch (param.type) {
    case ParamType::Int: {
      const auto number = parse_int(value);
      if (!number) throw bad_value(info, param, value, "it must be a whole number");
      if (!in_range(param, static_cast<double>(*number)))
        throw bad_value(info, param, value, describe_range(param));
      if (param.odd && *number % 2 == 0) throw bad_value(info, param, value, "it must be odd");
      return fmt::format("{}", *number);
    }
    case ParamType::Float: {
      const auto number = parse_double(value);
      if (!number) throw bad_value(info, param, value, "it must be a finite number");
      if (!in_range(param, *number)) throw bad_value(info, param, value, describe_range(param));
      return format_shortest(*number == 0 ? 0.0 : *number);  // "-0" is 0
    }
    case ParamType::Bool:
      if (value != "0" && value != "1") throw bad_value(info, param, value, "it must be 0 or 1");
      return std::string(value);
    case ParamType::Enum:
      if (std::find(param.choices.begin(), param.choices.end(), value) == param.choices.end())
        throw bad_value(info, param, value,
                        fmt::format("it must be one of {}", fmt::join(param.choices, ", ")));
      return std::string(value);
    case ParamType::Path: return std::string(value);
  }
  throw bad_value(info, param, value, "its type is unknown");
}

bool is_formula(const ParamInfo& param, const std::string& value) {
  return param.type == ParamType::Int && !parse_int(value);
}

// The two kinds of formula that defaults use: "head_dim/4" and "floor(0.4*num_layers)".
std::int64_t evaluate_formula(const std::string& formula, const ModelShape& shape) {
  constexpr std::string_view kDivide = "head_dim/";
  constexpr std::string_view kFloor = "floor(";
  constexpr std::string_view kLayers = "*num_layers)";
  const std::string_view text = formula;
  if (text.starts_with(kDivide)) {
    const auto divisor = parse_int(text.substr(kDivide.size()));
    KVLOUPE_CHECK(divisor && *divisor > 0);
    return std::max<std::int64_t>(1, shape.head_dim / *divisor);
  }
  KVLOUPE_CHECK(text.starts_with(kFloor) && text.ends_with(kLayers));
  const auto factor =
      parse_double(text.substr(kFloor.size(), text.size() - kFloor.size() - kLayers.size()));
  KVLOUPE_CHECK(factor.has_value());
  return static_cast<std::int64_t>(rounded_down(*factor * shape.num_layers));
}

bool sets_budget(std::string_view name) { return name == kBudgetTokens || name == kBudgetRatio; }

std::string default_of(const MethodInfo& info, const ParamInfo& param) {
  // A threshold method works without a budget until it is given one.
  if (param.name == kBudgetTokens && info.budget == BudgetUse::Optional) return kZero;
  return param.default_text;
}

std::vector<ParamInfo> budget_params() {
  return {int_param(kBudgetTokens, kDefaultBudget, 0, 2147483647,
                    "keys kept per layer and row; 0 when budget_ratio is used"),
          float_param(kBudgetRatio, 0, 0, 1,
                      "keys kept as a share of the keys before the chunk; 0 when unused"),
          enum_param("budget_scope", {"past", "all"},
                     "past: the chunk's own keys are always visible; all: they compete too")};
}

}  // namespace

const std::vector<ParamInfo>& common_params(const MethodInfo& info) {
  static const std::vector<ParamInfo> none, budget = budget_params(), all = [] {
    std::vector<ParamInfo> params = budget_params();
    params.push_back(
        int_param(kSkipLayers, 0, 0, 1 << 20, "the model's first layers, which stay dense"));
    return params;
  }();
  if (info.budget == BudgetUse::None) return none;
  const bool has_own = std::any_of(info.params.begin(), info.params.end(),
                                   [](const auto& param) { return param.name == kSkipLayers; });
  return has_own || info.crosses_layers ? budget : all;
}

std::vector<const ParamInfo*> params_with(const MethodInfo& info, const ParamValues& values) {
  std::vector<const ParamInfo*> result;
  const auto value_of = [&](std::string_view name) -> std::string_view {
    const auto given = values.find(name);
    if (given != values.end()) return given->second;
    const ParamInfo* param = find_param(result, name);
    return param != nullptr ? std::string_view(param->default_text) : std::string_view();
  };
  for (const auto* params : {&common_params(info), &info.params})
    for (const ParamInfo& param : *params) {
      const auto equals = param.only_for.find('=');
      if (equals == std::string::npos ||
          value_of(param.only_for.substr(0, equals)) == param.only_for.substr(equals + 1))
        result.push_back(&param);
    }
  return result;
}

ModelShape shape_of(const trace::ModelInfo& model) {
  return {model.num_layers, model.num_q_heads,  model.num_kv_heads, model.head_dim,
          model.rope_theta, model.rope_pairing, model.rope_scaling, model.layer_types};
}

// One parameter with its value: the canonical text, and what it says as a number.
struct MethodSpec::Value {
  Value(const ParamInfo* of, std::string given)
      : param(of), text(std::move(given)), integer(parse_int(text)), real(parse_double(text)) {}

  const ParamInfo* param;  // of the catalogue
  std::string text;
  bool is_default = false;  // also of a formula that became a number
  std::optional<std::int64_t> integer;
  std::optional<double> real;
};

struct MethodSpec::Parsed {
  const MethodInfo* info = nullptr;
  std::vector<Value> values;  // in the contract's order
  Traits traits;
};

ParamValues values_of_text(std::string_view text) {
  ParamValues values;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return values;
  const std::string_view id = text.substr(0, colon);
  for (std::size_t begin = colon + 1, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string_view item = text.substr(begin, end - begin);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw usage_error(fmt::format("{}: '{}' is not a parameter", id, item),
                        "parameters are written name=value, separated by commas", kHelp);
    if (!values.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      throw usage_error(fmt::format("{}: {} is given twice", id, item.substr(0, equals)),
                        "a parameter has one value", "leave one of them out");
  }
  return values;
}

std::string method_id(std::string_view text) {
  return std::string(text.starts_with(kBroughtIn) ? text : text.substr(0, text.find(':')));
}

MethodSpec MethodSpec::parse(std::string_view text) {
  const std::string id(text.substr(0, text.find(':')));
  const MethodInfo* info = find_method(id);
  if (info == nullptr) {
    std::vector<std::string> ids;
    for (const MethodInfo& known : catalogue()) ids.push_back(known.id);
    throw usage_error(fmt::format("'{}' is not a method", id),
                      fmt::format("the methods are {}", fmt::join(ids, ", ")), kHelp);
  }
  return of(*info, values_of_text(text));
}

MethodSpec MethodSpec::of(const MethodInfo& info, const ParamValues& given) {
  const std::string& id = info.id;
  const std::vector<const ParamInfo*> params = params_with(info, given);
  for (const auto& [name, value] : given)
    if (find_param(params, name) == nullptr)
      throw usage_error(fmt::format("{} has no parameter '{}'", id, name), names_of_params(params),
                        kHelp);
  auto parsed = std::make_shared<Parsed>();
  parsed->info = &info;
  for (const ParamInfo* param : params) {
    const auto found = given.find(param->name);
    if (found == given.end() && param->required)
      throw usage_error(fmt::format("{} needs {}", id, param->name), param->meaning,
                        fmt::format("write {}:{}=...", id, param->name));
    const std::string otherwise = default_of(info, *param);
    Value& value = parsed->values.emplace_back(
        param, found == given.end() ? otherwise : normalise(info, *param, found->second));
    value.is_default = !param->required && value.text == otherwise;
  }
  const MethodSpec spec(parsed);
  // A ratio replaces the default number of tokens.
  if (!given.contains(kBudgetTokens) && spec.budget_ratio() > 0)
    for (Value& value : parsed->values)
      if (value.param->name == kBudgetTokens) value = Value(value.param, kZero);
  if (info.budget != BudgetUse::None) spec.check_budget();
  spec.check_multiples();
  parsed->traits = traits_of(spec);
  return spec;
}

MethodSpec MethodSpec::with(const ParamValues& changes) const {
  ParamValues values;
  for (const Value& value : parsed_->values)
    if (!is_formula(*value.param, value.text)) values[value.param->name] = value.text;
  if (std::any_of(changes.begin(), changes.end(),
                  [](const auto& change) { return sets_budget(change.first); }))
    std::erase_if(values, [](const auto& value) { return sets_budget(value.first); });
  for (const auto& [name, value] : changes) values[name] = value;
  return of(info(), values);
}

const ParamInfo* MethodSpec::number(std::string_view name) const {
  const Value* found = find(name);
  if (found == nullptr || (sets_budget(name) && !has_budget())) return nullptr;
  const ParamType type = found->param->type;
  return type == ParamType::Int || type == ParamType::Float ? found->param : nullptr;
}

void MethodSpec::check_multiples() const {
  for (const Value& value : parsed_->values) {
    const ParamInfo& param = *value.param;
    if (!param.multiple_of.empty() && integer(param.name) % integer(param.multiple_of) != 0)
      throw bad_value(info(), param, value.text,
                      fmt::format("it must be a multiple of {}, which is {}", param.multiple_of,
                                  text(param.multiple_of)));
  }
}

void MethodSpec::check_budget() const {
  const bool by_ratio = budget_ratio() > 0;
  const bool by_tokens = budget_tokens() > 0;
  if (by_ratio && by_tokens)
    throw usage_error(fmt::format("{} has two budgets", id()),
                      "budget_tokens and budget_ratio are both above 0", "give one of them");
  if (!by_ratio && !by_tokens && info().budget == BudgetUse::Required)
    throw usage_error(fmt::format("{} has no budget", id()),
                      "budget_tokens and budget_ratio are both 0", "give one of them");
  if (scope() == BudgetScope::All && !info().accepts_scope_all)
    throw usage_error(fmt::format("{} does not take budget_scope=all", id()),
                      "its chunk is always visible outside the budget", "use budget_scope=past");
  if (!has("lowering")) return;
  const std::string& lowering = text("lowering");
  const bool to_budget = lowering == "budget";
  if (to_budget && !has_budget())
    throw usage_error(fmt::format("{} has no budget", id()), "lowering=budget needs one",
                      "give budget_tokens or budget_ratio, or use lowering=native or union");
  if (!to_budget && has_budget())
    throw usage_error(
        fmt::format("{} does not take a budget", id()),
        fmt::format("lowering={} keeps every block that the method itself keeps", lowering),
        "use lowering=budget, or leave the budget out");
}

const MethodInfo& MethodSpec::info() const {
  KVLOUPE_CHECK(parsed_ != nullptr);
  return *parsed_->info;
}

const Traits& MethodSpec::traits() const {
  KVLOUPE_CHECK(parsed_ != nullptr);
  return parsed_->traits;
}

MethodSpec MethodSpec::resolved(const ModelShape& shape) const {
  KVLOUPE_CHECK(parsed_ != nullptr);
  const auto is_open = [](const Value& value) { return is_formula(*value.param, value.text); };
  if (std::none_of(parsed_->values.begin(), parsed_->values.end(), is_open)) return *this;
  auto parsed = std::make_shared<Parsed>(*parsed_);
  for (Value& value : parsed->values)
    if (is_open(value)) {
      value = Value(value.param, fmt::format("{}", evaluate_formula(value.text, shape)));
      value.is_default = true;
    }
  return MethodSpec(std::move(parsed));
}

std::string MethodSpec::canonical() const {
  std::string result = id();
  char separator = ':';
  for (const Value& value : parsed_->values) {
    KVLOUPE_CHECK(!is_formula(*value.param, value.text));
    if (value.param->named_when_set && value.text == value.param->default_text) continue;
    result += fmt::format("{}{}={}", separator, value.param->name, value.text);
    separator = ',';
  }
  return result;
}

MethodSpec::Parameters MethodSpec::parameters() const {
  Parameters all;
  for (const Value& value : parsed_->values) all.emplace_back(value.param->name, value.text);
  return all;
}

MethodSpec::Parameters MethodSpec::not_default() const {
  Parameters set;
  for (const Value& value : parsed_->values)
    // No budget in tokens: the ratio says it, or the lowering.
    if (!value.is_default && !(value.param->name == kBudgetTokens && value.text == kZero))
      set.emplace_back(value.param->name, value.text);
  return set;
}

bool MethodSpec::operator==(const MethodSpec& other) const {
  if (parsed_ == other.parsed_) return true;
  if (!parsed_ || !other.parsed_ || parsed_->info != other.parsed_->info) return false;
  const auto same = [](const Value& a, const Value& b) {
    return a.param == b.param && a.text == b.text;
  };
  return std::equal(parsed_->values.begin(), parsed_->values.end(), other.parsed_->values.begin(),
                    other.parsed_->values.end(), same);
}

const MethodSpec::Value* MethodSpec::find(std::string_view name) const {
  KVLOUPE_CHECK(parsed_ != nullptr);
  for (const Value& value : parsed_->values)
    if (value.param->name == name) return &value;
  return nullptr;
}

const MethodSpec::Value& MethodSpec::value(std::string_view name) const {
  const Value* found = find(name);
  KVLOUPE_CHECK(found != nullptr);
  return *found;
}

bool MethodSpec::has(std::string_view name) const { return find(name) != nullptr; }

const std::string& MethodSpec::text(std::string_view name) const { return value(name).text; }

std::int64_t MethodSpec::integer(std::string_view name) const {
  const Value& found = value(name);
  KVLOUPE_CHECK(found.integer.has_value());
  return *found.integer;
}

double MethodSpec::real(std::string_view name) const {
  const Value& found = value(name);
  KVLOUPE_CHECK(found.real.has_value());
  return *found.real;
}

bool MethodSpec::flag(std::string_view name) const { return text(name) == "1"; }

bool MethodSpec::has_budget() const { return budget_tokens() > 0 || budget_ratio() > 0; }

std::int64_t MethodSpec::budget_tokens() const {
  return info().budget == BudgetUse::None ? 0 : integer(kBudgetTokens);
}

double MethodSpec::budget_ratio() const {
  return info().budget == BudgetUse::None ? 0 : real(kBudgetRatio);
}

ParamValues MethodSpec::budget_values() const {
  const auto name = budget_tokens() > 0 ? kBudgetTokens : kBudgetRatio;
  return {{std::string(name), text(name)}};
}

BudgetScope MethodSpec::scope() const {
  return info().budget != BudgetUse::None && text("budget_scope") == "all" ? BudgetScope::All
                                                                           : BudgetScope::Past;
}

int MethodSpec::skip_layers() const {
  return has(kSkipLayers) ? static_cast<int>(integer(kSkipLayers)) : 0;
}

bool MethodSpec::native_lowering() const { return has("lowering") && text("lowering") == "native"; }

std::int64_t MethodSpec::budget(std::int64_t n) const {
  KVLOUPE_CHECK(has_budget());
  if (budget_tokens() > 0) return budget_tokens();
  const double share = rounded_down(budget_ratio() * static_cast<double>(n));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share));
}

}  // namespace kvloupe::selection
