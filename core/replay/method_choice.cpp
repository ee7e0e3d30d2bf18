#include "core/replay/method_choice.h"

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/request_checks.h"
#include "core/selection/spec/recorded_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;

constexpr std::string_view kRun = "run:";

// What imports and other programs call their runs. No method of the catalogue is called so.
bool is_custom(std::string_view text) { return text.starts_with("custom:"); }

Error no_such_run(const MethodName& name, const trace::TraceInfo& info) {
  if (!is_custom(name.text)) return *name.no_spec;
  std::vector<std::string> runs;
  for (const trace::RunInfo& run : info.runs)
    runs.push_back(printable(short_name(choice_of_run(run, selection::shape_of(info.model)))));
  return input_error(
      fmt::format("{} is not in this trace", printable(name.text)),
      runs.empty() ? "it holds no runs" : fmt::format("its runs are {}", fmt::join(runs, "; ")),
      "see kvloupe info for the runs of the trace and its sidecar");
}

}  // namespace

MethodName::MethodName(std::string name) : text(std::move(name)) {
  if (text.starts_with(kRun)) {
    const auto number = parse_int(std::string_view(text).substr(kRun.size()));
    if (!number || *number < 0 || *number > (1 << 20))
      throw usage_error(fmt::format("{} is not a run", printable(text)), "runs are numbered from 0",
                        "see kvloupe info for the runs of a trace");
    run = static_cast<int>(*number);
    return;
  }
  try {
    spec = MethodSpec::parse(text);
  } catch (const Error& error) {
    no_spec = error;
  }
}

MethodName::MethodName(const MethodSpec& known) : spec(known) {}

bool MethodName::names_run() const { return run.has_value() || is_custom(text); }

const MethodSpec& MethodName::required_spec() const {
  if (spec) return *spec;
  if (no_spec && !is_custom(text)) throw *no_spec;
  throw usage_error(fmt::format("{} cannot be computed", printable(text)),
                    "a recorded run holds what was kept, not how to choose it",
                    "give the SPEC of a method, see kvloupe methods");
}

const trace::RunInfo* MethodChoice::run_info(const trace::TraceInfo& info) const {
  for (const trace::RunInfo& entry : info.runs)
    if (entry.id == run) return &entry;
  return nullptr;
}

MethodChoice choice_anew(const MethodSpec& spec) { return {spec.canonical(), -1, spec}; }

MethodChoice choice_of_run(const trace::RunInfo& run, const selection::ModelShape& shape) {
  MethodChoice choice{run.method, run.id, std::nullopt};
  try {
    choice.spec = selection::spec_of_run(run, shape);
  } catch (const Error&) {
    // Of another program, of a later version, or damaged: it is taken as recorded.
  }
  return choice;
}

MethodChoice choice_of(const MethodName& name, const trace::TraceInfo& info) {
  const selection::ModelShape shape = selection::shape_of(info.model);
  if (name.run) return choice_of_run(recorded_run_of(info, *name.run), shape);
  if (name.spec) return choice_anew(name.spec->resolved(shape));
  std::vector<const trace::RunInfo*> called_so;
  for (const trace::RunInfo& run : info.runs)
    if (run.method == name.text) called_so.push_back(&run);
  if (called_so.empty()) throw no_such_run(name, info);
  if (called_so.size() > 1)
    throw input_error(fmt::format("{} runs are called {}", called_so.size(), printable(name.text)),
                      "one of them must be meant",
                      fmt::format("give its number, run:{} or run:{}", called_so.front()->id,
                                  called_so.back()->id));
  return choice_of_run(*called_so.front(), shape);
}

selection::RowLayout layout_of(const MethodChoice& choice, const trace::TraceInfo& info) {
  if (!choice.recorded())
    return selection::row_layout(*choice.spec, selection::shape_of(info.model));
  const trace::RunInfo& run = recorded_run_of(info, choice.run);
  return {run.row_axis, run.q_heads_per_row};
}

std::string short_name(const MethodSpec& spec, const std::vector<std::string>& without) {
  std::string text = spec.id();
  char separator = ':';
  for (const auto& [name, value] : spec.not_default()) {
    if (std::find(without.begin(), without.end(), name) != without.end()) continue;
    text += fmt::format("{}{}={}", separator, name, value);
    separator = ',';
  }
  return text;
}

std::string short_name(const MethodChoice& choice) {
  const std::string text = choice.known() ? short_name(*choice.spec) : choice.text;
  const bool numbered = choice.recorded() && !choice.brought_in();
  return numbered ? fmt::format("run {}: {}", choice.run, text) : text;
}

}  // namespace kvloupe::replay
