// What a view shows of A and B, and of two traces, where it can show more than one: its option `show`. Which of the
// two stands alone is Selection::shown, the same for all views.
#pragma once

#include "app/state/array.h"
#include "app/state/other_trace.h"
#include "app/state/view.h"
#include "core/replay/method_choice.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;
struct ViewState;

// Traces: the one shown, here and in another trace (other_trace.h).
enum class Show { One, Both, Difference, Traces, Several };
inline constexpr const char* kShow = "show";  // the option's name
const char* name_of(Show show);               // "one", "both", "difference", "traces", "several"
constexpr bool takes_a_and_b(Show show) {
  return show == Show::Both || show == Show::Difference || show == Show::Several;
}

// Of these forms, the default first; `difference` says what the view draws of it.
ViewOption show_option(const std::vector<Show>& forms, const std::string& difference = "");
// Of a view without the option: One.
Show show_of(const Workspace& workspace, const ViewInfo& view);
Show show_of(const Workspace& workspace, const std::string& view);
// Of options by "view.option"; what is no choice of the view counts as its default.
Show show_of(const std::map<std::string, std::string>& options, const ViewInfo& view);

// Of a figure or a table of two methods: both, unless one was asked for.
void show_both_unless_asked(Workspace& workspace, const ViewState& what);

inline constexpr std::size_t kMostMethods = 6;
// A and B; then those named beside them, else those tried here and the recorded runs, each once.
std::vector<MethodChoice> several_methods(const Workspace& workspace);
// Of these the ones after B while the view shows several; else none. For ViewInfo::more_methods.
std::vector<MethodChoice> methods_beside(const Workspace& workspace, const std::string& view);
// What one picture of a view is of.
struct Drawn {
  Place place;
  MethodChoice method;
  NumberScope numbers = {};  // what means are over, of a view that shows means
};
// What the view draws: the method shown, A and B, several, or the one shown in two traces.
struct AllDrawn {
  std::vector<Drawn> pictures;
  OtherPlace other;  // of two traces

  // Why the other trace is not drawn although it is asked for; else empty.
  const std::string& problem() const { return other.why; }
};
AllDrawn all_drawn(Workspace& workspace, const std::string& view, Alike alike = Alike::Heads);

// The first of their problems. Asks for what all of them need.
template <typename ProblemOf>
std::string first_problem(const AllDrawn& drawn, const ProblemOf& problem_of_one) {
  std::string first = drawn.problem();
  for (const Drawn& one : drawn.pictures) {
    const std::string problem = problem_of_one(one);
    if (first.empty()) first = problem;
  }
  return first;
}
// The table of each, one below the other, by the ids of their columns; where there are several the trace or the
// method stands in front.
Table table_of(const AllDrawn& drawn, const std::function<Table(const Drawn&)>& of_one);
// The array of each along a first axis, which one alone does not get. Throws Error{Input} where their
// shapes differ.
Array array_of(const AllDrawn& drawn, const std::function<Array(const Drawn&)>& of_one);

}  // namespace kvloupe::state
