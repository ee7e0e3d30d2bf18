// The catalogue as a menu: methods grouped by what they do to the cache, found by a few letters, and
// the words that explain them and their parameters.
#pragma once

#include "app/state/method_choice.h"
#include "core/selection/spec/method_spec.h"

#include <string>
#include <vector>

namespace kvloupe::state {

struct MethodGroup {
  std::string title;
  std::vector<const selection::MethodInfo*> methods;
};
// In the order of the catalogue; only methods of which id, title or paper hold every word of
// `query`.
std::vector<MethodGroup> method_groups(const std::string& query);

// What a reader of the help wants to know, "Paper", "Authors, year".
struct HelpLine {
  std::string heading, text;
};
std::vector<HelpLine> help_of(const selection::MethodInfo& method);

// Meaning, range and default, for a tooltip.
std::string help_of(const selection::ParamInfo& param, const std::string& value_of_default);

// "quoka  256", "aqua  75 % of lanes"; of an unknown method its id.
std::string short_label(const MethodChoice& method);
// Of a label: "quoka 256", as it stands in a sentence.
std::string in_sentence(std::string label);

// The parameters beside the budget in which it differs from another SPEC of the same method,
// "num_queries=128"; "" where the short labels tell the two apart.
std::string distinct_params(const MethodChoice& method, const MethodChoice& other);

// The short labels of methods that stand in one list; those that would be alike carry the parameters
// by which they differ, and where these are alike, too, the number of the run.
std::vector<std::string> distinct_labels(const std::vector<MethodChoice>& methods);

}  // namespace kvloupe::state
