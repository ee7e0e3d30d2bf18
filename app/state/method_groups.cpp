// See method_groups.h.
#include "app/state/method_groups.h"

#include "app/state/token_text.h"
#include "core/base/letters.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace kvloupe::state {
namespace {

using selection::MethodInfo;
using selection::ParamInfo;
using selection::ParamType;

bool matches(const MethodInfo& method, const std::string& query) {
  const std::string text = lower_case(method.id + " " + method.title + " " + method.paper);
  std::istringstream words(lower_case(query));
  for (std::string word; words >> word;)
    if (text.find(word) == std::string::npos) return false;
  return true;
}

std::string title_of(const MethodInfo& method) {
  const bool evicts = method.state_action == trace::StateAction::Eviction;
  switch (method.granularity) {
    case trace::Granularity::None: return "Keep everything";
    case trace::Granularity::Token:
      return evicts ? "Evict keys for good" : "Select keys anew for each chunk";
    case trace::Granularity::Page: return evicts ? "Evict pages for good" : "Select pages";
    case trace::Granularity::Block: return evicts ? "Evict blocks for good" : "Select blocks";
    case trace::Granularity::Lane:
      return evicts ? "Drop lanes and evict keys" : "Drop lanes, keep every key";
  }
  return {};
}

// As large as numbers are at all: no bound that a reader needs.
bool is_bounded(const ParamInfo& param) { return param.max < 1e9; }

std::string range_of(const ParamInfo& param) {
  switch (param.type) {
    case ParamType::Int:
    case ParamType::Float:
      return fmt::format("{} {}{}{}", param.min_exclusive ? "above" : "from",
                         format_shortest(param.min),
                         is_bounded(param) ? " to " + format_shortest(param.max) : " on",
                         param.odd ? ", odd" : "");
    case ParamType::Bool: return "on or off";
    case ParamType::Enum: return fmt::format("{}", fmt::join(param.choices, " or "));
    case ParamType::Path: return {};
  }
  return {};
}

// Of the parameters those in which it differs from one of the others with its label.
std::string own_params(const MethodChoice& method, const std::vector<MethodChoice>& others) {
  if (!method.known()) return {};
  std::vector<selection::MethodSpec::Parameters> alike;
  for (const MethodChoice& other : others)
    if (other.known() && short_label(other) == short_label(method))
      alike.push_back(other.spec->parameters());
  std::string text;
  for (const auto& param : method.spec->parameters()) {
    const bool differs = std::any_of(alike.begin(), alike.end(), [&](const auto& params) {
      return std::find(params.begin(), params.end(), param) == params.end();
    });
    if (differs)
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", param.first, param.second);
  }
  return text;
}

// From the paper, one a line.
std::string differences_of(const MethodInfo& method) {
  const std::vector<std::string> all = method.deviations();
  if (all.empty()) return "nothing known differs";
  return all.size() == 1 ? all.front() : fmt::format("\u2022 {}", fmt::join(all, "\n\u2022 "));
}

}  // namespace

std::vector<MethodGroup> method_groups(const std::string& query) {
  std::vector<MethodGroup> groups;
  for (const MethodInfo& method : selection::catalogue()) {
    if (!matches(method, query)) continue;
    const std::string title = title_of(method);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const MethodGroup& g) { return g.title == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
    group->methods.push_back(&method);
  }
  return groups;
}

std::vector<HelpLine> help_of(const MethodInfo& method) {
  std::vector<HelpLine> lines{{"Paper", method.paper},
                              {"Follows", method.evidence},
                              {"Paper's own", method.paper_spec},
                              {"Differs", differences_of(method)},
                              {"Reads", fmt::format("{}", fmt::join(method.needs, ", "))}};
  lines.push_back({"Decode", method.active_in_decode
                                 ? "acts at each decoded token too"
                                 : "acts in prefill only; decoded tokens see all keys left"});
  if (method.crosses_layers)
    lines.push_back({"Layers", "layers in between reuse the set of an earlier layer"});
  if (method.needs_probe)
    lines.push_back({"Trace", "needs the probe queries and novelty that only some captures hold"});
  if (method.basis)
    lines.push_back({"Basis", fmt::format("needs a calibrated basis: kvloupe calibrate {}",
                                          trace::name_of(*method.basis))});
  return lines;
}

std::string help_of(const ParamInfo& param, const std::string& value_of_default) {
  std::string text = param.meaning;
  if (const std::string range = range_of(param); !range.empty()) text += "\n" + range;
  text += "; default " + param.default_text;
  if (!value_of_default.empty() && value_of_default != param.default_text)
    text += fmt::format(" = {} here", value_of_default);
  return text;
}

std::string in_sentence(std::string label) {
  for (std::size_t at = 0; (at = label.find("  ", at)) != std::string::npos;) label.erase(at, 1);
  return label;
}

std::string short_label(const MethodChoice& method) {
  const std::string label = readable_name(method.id());
  if (!method.known()) return label;
  const selection::MethodSpec& parsed = *method.spec;
  if (parsed.has_budget())
    return parsed.budget_tokens() > 0
               ? label + fmt::format("  {}", format_count(parsed.budget_tokens()))
               : label + fmt::format("  {:g} %", parsed.budget_ratio() * 100);
  const selection::Traits& traits = parsed.traits();
  if (!traits.lanes) return label;
  std::string lanes = fmt::format("  {:g} % of lanes", traits.lanes->kept * 100);
  if (traits.cache_share > 0) lanes += fmt::format(", {:g} % of keys", traits.cache_share * 100);
  return label + lanes;
}

std::string distinct_params(const MethodChoice& method, const MethodChoice& other) {
  return own_params(method, {other});
}

std::vector<std::string> distinct_labels(const std::vector<MethodChoice>& methods) {
  std::vector<std::string> labels;
  for (const MethodChoice& method : methods) {
    const std::string own = own_params(method, methods);
    labels.push_back(short_label(method) + (own.empty() ? "" : "  " + own));
  }
  const std::vector<std::string> before = labels;
  for (std::size_t i = 0; i < methods.size(); ++i)
    if (methods[i].recorded() && std::count(before.begin(), before.end(), before[i]) > 1)
      labels[i] += fmt::format("  run {}", methods[i].run);
  return labels;
}

}  // namespace kvloupe::state
