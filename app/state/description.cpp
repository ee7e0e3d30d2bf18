#include "app/state/description.h"

#include "app/state/other_trace.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/selection/method_files.h"
#include "core/trace/part_file.h"
#include "core/trace/trace_reader.h"

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

const ViewInfo& checked_view(const std::string& id) {
  if (const ViewInfo* view = find_view(id)) return *view;
  std::vector<std::string> known;
  for (const ViewInfo& view : views()) known.push_back(view.id);
  throw usage_error(fmt::format("unknown view '{}'", id), "no view has this id",
                    fmt::format("use one of {}", fmt::join(known, ", ")));
}

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

void check_number_of_methods(const ViewInfo& view, std::size_t given) {
  // One is taken everywhere: a view that shows no method still knows which one is meant.
  if (view.more_methods != nullptr ||
      given <= std::max<std::size_t>(1, static_cast<std::size_t>(view.num_methods)))
    return;
  constexpr std::array kNumbers{"none", "one", "two"};
  throw usage_error("too many methods",
                    fmt::format("{} are given and the view {} takes {}", given, view.id,
                                kNumbers.at(static_cast<std::size_t>(view.num_methods))),
                    "name fewer, or use a view that takes many");
}

// Throws unless it is a SPEC, or names a run of the trace.
void check_method(const std::string& text, const Description& what) {
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

bool draws_another_trace(const ViewInfo& view) {
  return std::any_of(view.options.begin(), view.options.end(), [](const ViewOption& option) {
    return option.name == "beside" && option.choice("other") != nullptr;
  });
}

void check_other_trace(const ViewInfo& view, const Description& what) {
  if (what.other_trace.empty()) {
    const auto beside = what.options.find("beside");
    if (beside != what.options.end() && checked_choice(view, "beside", beside->second) == "other")
      throw usage_error("--beside other has no other trace", "none is named",
                        "add --other-trace T.h5");
    return;
  }
  std::vector<std::string> able;
  for (const ViewInfo& each : views())
    if (draws_another_trace(each)) able.push_back(each.id);
  if (!draws_another_trace(view))
    throw usage_error(fmt::format("--other-trace does not go with the view {}", view.id),
                      "it draws one trace",
                      fmt::format("leave it out, or use {}", fmt::join(able, ", ")));
  std::error_code ignored;
  if (std::filesystem::equivalent(what.trace, what.other_trace, ignored))
    throw usage_error(fmt::format("--other-trace {} is the trace itself", what.other_trace),
                      "there would be nothing to draw beside it", "name another trace");
}

// A and B where both are drawn, then what stands beside them; each once, but for B.
std::vector<MethodChoice> methods_shown(const Workspace& workspace, const ViewInfo& view) {
  std::vector<MethodChoice> methods;
  if (view.shows_both)
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

}  // namespace

void check(const Description& what) {
  const ViewInfo& view = checked_view(what.view);
  check_other_trace(view, what);
  for (const auto& [name, value] : what.options) checked_choice(view, name, value);
  for (const std::string& method : what.methods) check_method(method, what);
  parse_goto(what.go_to);
  if (what.device != "cpu") engine().open_device(what.device);
  check_number_of_methods(view, what.methods.size());
}

InputFiles files_read(const Description& what) {
  InputFiles files = trace::files_of_trace(what.trace);
  if (!what.other_trace.empty())
    for (const auto& file : trace::files_of_trace(what.other_trace)) files.push_back(file);
  for (const std::string& method : what.methods) {
    if (const replay::MethodName name(method); name.spec)
      for (const auto& file : selection::files_of(*name.spec)) files.push_back(file);
  }
  return files;
}

Description describe(const Workspace& workspace, const ViewInfo& view) {
  Description what;
  what.trace = workspace.place().trace->path;
  what.view = view.id;
  what.go_to = goto_text(workspace.place());
  what.device = workspace.place().device;
  for (const MethodChoice& method : methods_shown(workspace, view))
    what.methods.push_back(method.text);
  for (const ViewOption& option : view.options) {
    const std::string& value = workspace.option(view.id, option.name);
    if (value != option.choices.front()) what.options[option.name] = value;
  }
  if (what.options.contains("beside")) {
    if (const TracePtr other = other_trace(workspace))
      what.other_trace = other->path;
    else
      what.options.erase("beside");
  }
  return what;
}

void show(Workspace& workspace, const Description& what) {
  const OpenTrace& trace = *workspace.place().trace;
  std::vector<MethodChoice> more;
  for (std::size_t i = 0; i < what.methods.size(); ++i) {
    const MethodChoice method = choice_of_text(what.methods[i], trace);
    if (i < kSlots.size())
      workspace.cursor.set_method(kSlots[i], method);
    else
      more.push_back(method);
  }
  // Who names one method wants to see that one alone.
  if (what.methods.size() == 1)
    workspace.cursor.set_method(Slot::B, choice_of_text(what.methods.front(), trace));
  workspace.cursor.set_more_methods(more);
  for (const auto& [name, value] : what.options)
    workspace.cursor.set_option(what.view + "." + name,
                                checked_choice(checked_view(what.view), name, value));
  workspace.cursor.set_device(what.device);
  workspace.cursor.go_to(parse_goto(what.go_to));
}

std::vector<std::string> export_arguments(const Description& what) {
  std::vector<std::string> arguments{"export",  what.trace, "--view",
                                     what.view, "--goto",   what.go_to};
  for (const std::string& method : what.methods)
    arguments.insert(arguments.end(), {"--method", method});
  for (const auto& [name, value] : what.options)
    arguments.insert(arguments.end(), {"--" + name, value});
  if (what.device != "cpu") arguments.insert(arguments.end(), {"--device", what.device});
  if (!what.other_trace.empty())
    arguments.insert(arguments.end(), {"--other-trace", what.other_trace});
  if (what.chunk_size)
    arguments.insert(arguments.end(), {"--chunk-size", std::to_string(*what.chunk_size)});
  return arguments;
}

}  // namespace kvloupe::state
