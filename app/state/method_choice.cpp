#include "app/state/method_choice.h"

#include "core/base/error.h"
#include "core/selection/default_budget.h"

#include <fmt/format.h>

namespace kvloupe::state {

const trace::RunInfo* MethodChoice::run_info(const trace::TraceInfo& info) const {
  for (const trace::RunInfo& entry : info.runs)
    if (entry.id == run) return &entry;
  return nullptr;
}

MethodChoice choice_of_spec(const std::string& spec, const OpenTrace& trace) {
  return choice_of_spec(selection::MethodSpec::parse(spec), trace);
}

MethodChoice choice_of_spec(const selection::MethodSpec& spec, const OpenTrace& trace) {
  const selection::MethodSpec resolved = spec.resolved(trace.shape());
  // Not by its text: a run of an earlier version names fewer parameters.
  for (const trace::RunInfo& run : trace.info().runs)
    if (MethodChoice recorded = choice_of_run(run, trace); recorded.spec == resolved)
      return recorded;
  return choice_anew(resolved);
}

MethodChoice choice_anew(const selection::MethodSpec& spec) { return {spec.canonical(), -1, spec}; }

MethodChoice choice_of_text(const std::string& text, const OpenTrace& trace) {
  for (const trace::RunInfo& run : trace.info().runs)
    if (run.method == text) return choice_of_run(run, trace);
  return choice_of_spec(text, trace);
}

MethodChoice choice_of_run(const trace::RunInfo& run, const OpenTrace& trace) {
  MethodChoice choice{run.method, run.id, std::nullopt};
  try {
    choice.spec = selection::MethodSpec::parse(run.method).resolved(trace.shape());
  } catch (const Error&) {
    // Of a later version, or damaged: it is shown as recorded.
  }
  return choice;
}

std::string default_spec(std::int32_t num_tokens) {
  return fmt::format("quoka:budget_tokens={}", selection::default_budget(num_tokens));
}

}  // namespace kvloupe::state
