// What a view shows of A and B where it can show more than one method: its option `show`. Which of the
// two stands alone is Selection::shown, the same for all views.
#pragma once

#include "app/state/array.h"
#include "app/state/view.h"
#include "core/replay/method_choice.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

enum class Show { One, Both, Difference, Several };
inline constexpr const char* kShow = "show";  // the option's name
const char* name_of(Show show);               // "one", "both", "difference", "several"

// `difference` says what the view draws of it; `several`: more than A and B, too.
ViewOption show_option(const std::string& difference, bool several = false);
// Of a view without the option: One.
Show show_of(const Workspace& workspace, const ViewInfo& view);
Show show_of(const Workspace& workspace, const std::string& view);
// Of options by "view.option"; what is no choice of the view counts as its default.
Show show_of(const std::map<std::string, std::string>& options, const ViewInfo& view);

inline constexpr std::size_t kMostMethods = 6;
// A and B; then those named beside them, else those tried here and the recorded runs, each once.
std::vector<MethodChoice> several_methods(const Workspace& workspace);
// Of these the ones after B while the view shows several; else none. For ViewInfo::more_methods.
std::vector<MethodChoice> methods_beside(const Workspace& workspace, const std::string& view);
// What the view draws: the one shown, A and B, or several.
std::vector<MethodChoice> methods_drawn(const Workspace& workspace, const std::string& view);

// The first of their problems. Asks for what all of them need.
template <typename ProblemOf>
std::string first_problem(const std::vector<MethodChoice>& methods,
                          const ProblemOf& problem_of_one) {
  std::string first;
  for (const MethodChoice& method : methods) {
    const std::string problem = problem_of_one(method);
    if (first.empty()) first = problem;
  }
  return first;
}
// The table of each, one below the other; the method stands in front where there are several.
Table table_of(const std::vector<MethodChoice>& methods,
               const std::function<Table(const MethodChoice&)>& of_one);
// The array of each along a first axis, which one alone does not get. Throws Error{Input} where their
// shapes differ.
Array array_of(const std::vector<MethodChoice>& methods,
               const std::function<Array(const MethodChoice&)>& of_one);

}  // namespace kvloupe::state
