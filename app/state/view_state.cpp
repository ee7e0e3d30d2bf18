#include "app/state/view_state.h"

#include "app/state/number_chunks.h"
#include "app/state/other_trace.h"
#include "app/state/perspectives.h"
#include "app/state/questions/results/task_scores.h"
#include "app/state/shown_methods.h"
#include "app/state/sight.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/selection/spec/method_files.h"
#include "core/trace/trace_reader.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace kvloupe::state {
namespace {

// The choice that is meant. Throws Error{Usage}.
const std::string& checked_choice(const ViewInfo& view, const std::string& name,
                                  const std::string& value) {
  for (const ViewOption& option : view.options) {
    if (option.name != name) continue;
    if (const std::string* choice = option.choice(value)) return *choice;
    throw usage_error(fmt::format("--{} {} is not valid", name, value),
                      fmt::format("{} has other choices", view.id),
                      fmt::format("use one of {}", fmt::join(option.choices, ", ")));
  }
  std::vector<std::string> known;
  for (const ViewOption& option : view.options) known.push_back("--" + option.name);
  throw usage_error(
      fmt::format("the view {} has no option --{}", view.id, name),
      known.empty() ? "it takes none" : fmt::format("it takes {}", fmt::join(known, ", ")),
      "see kvloupe views --json");
}

bool has_show(const ViewInfo& view) {
  return std::any_of(view.options.begin(), view.options.end(),
                     [](const ViewOption& option) { return option.name == kShow; });
}

void check_number_of_methods(const ViewInfo& view, const ViewState& what) {
  if (view.shows_results) return;  // as many as there are samples of
  const std::size_t given = what.methods.size();
  const Show show = show_of(what.options, view);
  const bool chosen = what.options.contains(view.id + "." + kShow);
  if (chosen && (show == Show::Both || show == Show::Difference) && given == 1)
    throw usage_error(fmt::format("--{} {} needs two methods", kShow, name_of(show)),
                      "one is given", "name another by a second --method");
  if (show == Show::Several && given > kMostMethods)
    throw usage_error(
        "too many methods",
        fmt::format("{} are given and the view {} draws {} at most", given, view.id, kMostMethods),
        "name fewer");
  const bool takes_more =
      view.more_methods != nullptr && (show == Show::Several || !has_show(view));
  // One is taken everywhere: a view that shows no method still knows which one is meant.
  if (takes_more || given <= std::max<std::size_t>(1, static_cast<std::size_t>(view.num_methods)))
    return;
  if (view.more_methods != nullptr)
    throw usage_error("too many methods",
                      fmt::format("{} are given and the view {} takes two", given, view.id),
                      fmt::format("name fewer, or add --{} {}", kShow, name_of(Show::Several)));
  constexpr std::array kNumbers{"none", "one", "two"};
  throw usage_error("too many methods",
                    fmt::format("{} are given and the view {} takes {}", given, view.id,
                                kNumbers.at(static_cast<std::size_t>(view.num_methods))),
                    "name fewer, or use a view that takes many");
}

// Throws unless it is a SPEC, or names a run of the trace.
void check_method(const std::string& text, const ViewState& what) {
  const replay::MethodName name(text);
  if (name.spec) return;
  std::optional<trace::TraceReader> reader;
  try {
    reader.emplace(what.trace);
  } catch (const Error&) {
    // No trace to hold such a run: what is wrong with the text is told.
    if (name.no_spec) throw Error(*name.no_spec);
    throw;
  }
  replay::choice_of(name, reader->info());
  if (what.chunk_size)
    throw usage_error(fmt::format("{} cannot be shown on other chunks", text),
                      "it is known as recorded alone, on the trace's own chunks",
                      "leave out --chunk-size");
}

// The option that has the view draw another trace, where it is asked to.
const ViewOption* asked_for_other_trace(const ViewInfo& view,
                                        const std::map<std::string, std::string>& options) {
  for (const ViewOption& option : view.options) {
    const auto given = options.find(view.id + "." + option.name);
    if (given == options.end()) continue;
    const std::string* choice = option.choice(given->second);
    if (choice != nullptr && draws_other_trace(option.name, *choice)) return &option;
  }
  return nullptr;
}

void check_other_trace(const ViewInfo& view, const ViewState& what) {
  if (what.other_trace.empty()) {
    if (const ViewOption* asked = asked_for_other_trace(view, what.options))
      throw usage_error(fmt::format("--{} {} has no other trace", asked->name,
                                    what.options.at(view.id + "." + asked->name)),
                        "none is named", "add --other-trace T.h5");
    return;
  }
  std::vector<std::string> able;
  for (const ViewInfo& each : views())
    if (way_to_other_trace(each)) able.push_back(each.id);
  if (!way_to_other_trace(view))
    throw usage_error(fmt::format("--other-trace does not go with the view {}", view.id),
                      "it draws one trace",
                      fmt::format("leave it out, or use {}", fmt::join(able, ", ")));
  std::error_code ignored;
  if (std::filesystem::equivalent(what.trace, what.other_trace, ignored))
    throw usage_error(fmt::format("--other-trace {} is the trace itself", what.other_trace),
                      "there would be nothing to draw beside it", "name another trace");
}

void check_numbers(const ViewInfo& view, const ViewState& what) {
  if (what.numbers == NumberScope{} || view.over_chunks) return;
  std::vector<std::string> able;
  for (const ViewInfo& each : views())
    if (each.over_chunks) able.push_back(each.id);
  throw usage_error(fmt::format("--numbers does not go with the view {}", view.id),
                    "its numbers are not means over chunks",
                    fmt::format("leave it out, or use {}", fmt::join(able, ", ")));
}

// A and B where both are drawn, then what stands beside them; each once, but for B.
std::vector<MethodChoice> methods_shown(const Workspace& workspace, const ViewInfo& view) {
  std::vector<MethodChoice> methods;
  if (view.shows_both || takes_a_and_b(show_of(workspace, view)))
    for (const Slot slot : kSlots) methods.push_back(workspace.method(slot));
  else if (view.num_methods > 0)
    methods.push_back(workspace.method());
  if (view.more_methods != nullptr)
    for (MethodChoice& method : view.more_methods(workspace))
      if (std::find(methods.begin(), methods.end(), method) == methods.end())
        methods.push_back(std::move(method));
  std::erase_if(methods, [](const MethodChoice& method) { return method.empty(); });
  return methods;
}

std::vector<std::string> names_of(const auto& methods, const OpenTrace& trace) {
  std::vector<std::string> names;
  for (const MethodChoice& method : methods) names.push_back(name_in(trace, method));
  return names;
}

// The choice that is meant of an option named "view.option".
const std::string& checked_option(const std::string& name, const std::string& value) {
  const std::size_t dot = name.find('.');
  const ViewInfo& view = view_named(view_of(name.substr(0, dot)));
  return checked_choice(view, dot == std::string::npos ? "" : name.substr(dot + 1), value);
}

template <typename Step>
void attempt(Unknown unknown, const Step& step) {
  try {
    step();
  } catch (const Error&) {
    if (unknown == Unknown::Refuse) throw;
  }
}

// Nothing for a text that names none.
std::optional<MethodChoice> choice_of(const std::string& text, const OpenTrace& trace,
                                      Unknown unknown) {
  std::optional<MethodChoice> choice;
  if (!text.empty()) attempt(unknown, [&] { choice = choice_of_text(text, trace); });
  return choice;
}

void show_methods(TraceTab& tab, const ViewState& what, Unknown unknown) {
  const OpenTrace& trace = *tab.selection.place.trace;
  tab.selection.more.clear();
  for (std::size_t i = 0; i < what.methods.size(); ++i) {
    const auto method = choice_of(what.methods[i], trace, unknown);
    if (!method) continue;
    if (i >= kSlots.size()) {
      tab.selection.more.push_back(*method);
      continue;
    }
    tab.selection.choice(kSlots[i]) = *method;
    tab.remember_tried(*method);
    // Who names one method wants to see that one alone.
    if (what.methods.size() == 1) tab.selection.choice(Slot::B) = *method;
  }
}

void show_tried(TraceTab& tab, const ViewState& what, Unknown unknown) {
  if (what.tried.empty()) return;
  tab.tried.clear();
  for (const std::string& text : what.tried)
    if (const auto method = choice_of(text, *tab.selection.place.trace, unknown))
      tab.tried.push_back(*method);
}

void show_settings(TraceTab& tab, const ViewState& what, Unknown unknown) {
  ViewSettings settings = what;
  settings.options.clear();
  for (const auto& [name, value] : what.options)
    attempt(unknown, [&, name = name, value = value] {
      settings.options[name] = checked_option(name, value);
    });
  std::error_code ignored;
  if (!settings.other_trace.empty())  // as tabs name their files
    settings.other_trace = std::filesystem::absolute(settings.other_trace, ignored).string();
  // A link to a view goes to where the view is large.
  if (settings.perspective.empty())
    settings.perspective = what.view.empty() ? tab.selection.perspective : home_of(what.view).id;
  settings.numbers = {};
  attempt(unknown, [&] {
    check_scope(what.numbers, tab.selection.place.info());
    settings.numbers = what.numbers;
  });
  static_cast<ViewSettings&>(tab.selection) = std::move(settings);
}

// Those that are not as by default.
std::map<std::string, std::string> options_of(const Workspace& workspace, const ViewInfo& view) {
  std::map<std::string, std::string> options;
  for (const ViewOption& option : view.options) {
    const std::string& value = workspace.option(view.id, option.name);
    if (value != option.choices.front()) options[view.id + "." + option.name] = value;
  }
  return options;
}

bool names_a_place_alone(const ViewState& what) {
  ViewState place_alone;
  place_alone.trace = what.trace;
  place_alone.place = what.place;
  return what == place_alone;
}

void check_form(const PictureForm& form) {
  const PictureForm usual;
  if (form.column_cm > 0 && (form.width != usual.width || form.height != usual.height))
    throw usage_error("--size does not go with --column", "each says how wide the figure is",
                      "leave one of the two out");
  if (form.column_cm <= 0 && form.font_pt != usual.font_pt)
    throw usage_error("--font-size needs --column", "without it the figure has no size on paper",
                      "give --column 8.4cm, or leave it out");
}

}  // namespace

void check_view(const ViewState& what) {
  const ViewInfo& view = view_named(what.view);
  check_form(what.picture);
  check_numbers(view, what);
  check_other_trace(view, what);
  check_options(what);
}

namespace {

// A view of results looks at no place, and computes nothing.
void check_of_results(const ViewState& what) {
  const auto refuse = [&](const char* option) {
    throw usage_error(fmt::format("{} does not go with the view {}", option, what.view),
                      "it shows results of an evaluation", "leave it out");
  };
  if (!(what.place == GotoTarget{})) refuse("--goto");
  if (what.device != device::kDefault) refuse("--device");
  if (what.chunk_size) refuse("--chunk-size");
}

}  // namespace

void check_options(const ViewState& what) {
  for (const auto& [name, value] : what.options) checked_option(name, value);
}

void check(const ViewState& what) {
  check_view(what);
  if (view_named(what.view).shows_results) return check_of_results(what);
  for (const std::string& method : what.methods) check_method(method, what);
  if (what.device != device::kDefault) engine().open_device(what.device);
  check_number_of_methods(view_named(what.view), what);
}

std::vector<ViewState> panels_of(const ViewState& what) {
  ViewState base = what;
  base.panels.clear();
  if (what.panels.empty()) return {base};
  std::vector<ViewState> panels;
  for (const std::string& link : what.panels) panels.push_back(parse_link(link, base));
  return panels;
}

InputFiles files_read(const ViewState& what) {
  InputFiles files = trace::files_of_trace(what.trace);
  for (const ViewState& shown : panels_of(what)) {
    if (!shown.other_trace.empty())
      for (const auto& file : trace::files_of_trace(shown.other_trace)) files.push_back(file);
    for (const std::string& method : shown.methods)
      if (const replay::MethodName name(method); name.spec)
        for (const auto& file : selection::files_of(*name.spec)) files.push_back(file);
  }
  return files;
}

namespace {

ViewState state_of(const TraceTab& tab, const Selection& selection) {
  const OpenTrace& trace = *selection.place.trace;
  ViewState what;
  static_cast<ViewSettings&>(what) = selection;
  what.trace = tab.path;
  what.place = target_of(selection.place);
  what.methods = names_of(selection.method, trace);
  for (std::string& name : names_of(selection.more, trace)) what.methods.push_back(std::move(name));
  what.tried = names_of(tab.tried, trace);
  what.device = selection.place.device;
  return what;
}

}  // namespace

ViewState state_of(const TraceTab& tab) {
  if (tab.state == ResultState::Ready) return state_of(tab, tab.selection);
  ViewState what = tab.wanted.what.value_or(ViewState());
  what.trace = tab.path;
  return what;
}

ViewState state_of(const Workspace& workspace) {
  return state_of(*workspace.traces.ready(), workspace.selection());
}

namespace {

ViewState describe_results(const Workspace& workspace, const ViewInfo& view) {
  ViewState what = state_of_results(workspace);
  if (workspace.has_trace()) what.picture = workspace.selection().picture;
  what.view = view.id;
  what.options = options_of(workspace, view);
  return what;
}

}  // namespace

ViewState state_of_results(const Workspace& workspace) {
  ViewState what;
  what.trace = workspace.results.path();
  const ResultsSight& sight = workspace.results.sight;
  what.options = sight.options;
  what.methods = sight.methods;
  if (sight.against.empty()) return what;
  // The first one named is what the others are compared with.
  what.methods = workspace.results.shown();
  std::erase(what.methods, sight.against);
  what.methods.insert(what.methods.begin(), sight.against);
  return what;
}

ResultsSight sight_of(const ViewState& what, const ReadResults& results) {
  ResultsSight sight = scores_across_more_than_one(results);
  for (const auto& [name, value] : what.options)
    attempt(Unknown::PassOver,
            [&, name = name, value = value] { sight.options[name] = checked_option(name, value); });
  for (const std::string& method : what.methods)
    if (std::ranges::find(results.methods, method) != results.methods.end())
      sight.methods.push_back(method);
  return sight;
}

ViewState describe(const Workspace& workspace, const ViewInfo& view) {
  if (view.shows_results) return describe_results(workspace, view);
  ViewState what = state_of(workspace);
  what.trace = workspace.place().trace->path;
  what.view = view.id;
  what.methods = names_of(methods_shown(workspace, view), *workspace.place().trace);
  what.tried.clear();
  what.perspective.clear();
  if (view.num_methods == 0) what.shown = Slot::A;
  if (!view.over_chunks) what.numbers = {};
  what.options = options_of(workspace, view);
  what.other_trace.clear();
  if (const ViewOption* asked = asked_for_other_trace(view, what.options)) {
    if (const TracePtr other = other_trace(workspace))
      what.other_trace = other->path;
    else
      what.options.erase(view.id + "." + asked->name);
  }
  return what;
}

void show(TraceTab& tab, const ViewState& what, Unknown unknown) {
  TraceTab changed = tab;
  if (!names_a_place_alone(what)) {
    show_settings(changed, what, unknown);
    show_methods(changed, what, unknown);
    show_tried(changed, what, unknown);
    // The engine, which may not be loaded yet, knows devices: where this is none, views say so.
    changed.selection.place.device = what.device;
  }
  attempt(unknown, [&] { apply_goto(changed.selection.place, what.place); });
  tab = std::move(changed);
}

void show(Workspace& workspace, const ViewState& what) {
  if (const ViewInfo* view = find_view(what.view); view != nullptr && view->shows_results) {
    for (const auto& [name, value] : what.options)
      workspace.results.sight.options[name] = checked_option(name, value);
    workspace.results.show_methods(what.methods);
    return;
  }
  TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return;
  const Selection before = tab->selection;
  show(*tab, what, Unknown::Refuse);
  if (!(tab->selection == before)) tab->history.push(before, "");
  if (!what.other_trace.empty()) workspace.traces.open_beside(what.other_trace);
}

}  // namespace kvloupe::state
