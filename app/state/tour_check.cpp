// What of a tour can be known only with its traces.
#include "app/state/selection.h"
#include "app/state/tour.h"
#include "core/base/error.h"
#include "core/selection/spec/method_spec.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

bool has_number(const MethodChoice& method, const std::string& name) {
  const auto params = selection::params_with(method.spec->info(), {});
  return std::ranges::any_of(params, [&](const auto* param) { return param->name == name; });
}

}  // namespace

TraceTab tab_of(const TracePtr& trace) {
  TraceTab tab;
  tab.path = trace->path;
  tab.selection = initial_selection(trace, nullptr);
  return tab;
}

std::string problem_of(const TourPage& page, TraceTab& tab) {
  try {
    show(tab, page.at, Unknown::Refuse);
    for (const TourGoal& goal : page.goals) {
      TraceTab reached = tab;
      ViewState wanted = goal.at;
      // An id alone is any SPEC of it.
      std::erase_if(wanted.methods,
                    [](const std::string& text) { return text.find(':') == std::string::npos; });
      show(reached, wanted, Unknown::Refuse);
    }
  } catch (const Error& error) {
    return error.what();
  }
  const MethodChoice& method = tab.selection.choice(Slot::A);
  for (const std::string& knob : page.knobs)
    if (method.spec && !has_number(method, knob))
      return fmt::format("{} has no parameter {}", method.spec->id(), knob);
  return {};
}

}  // namespace kvloupe::state
