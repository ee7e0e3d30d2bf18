#include "app/state/method_choice.h"

#include "core/selection/spec/default_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {

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

MethodChoice choice_of_text(const std::string& text, const OpenTrace& trace) {
  for (const trace::RunInfo& run : trace.info().runs)
    if (run.method == text) return choice_of_run(run, trace);
  const replay::MethodName name(text);
  return name.spec ? choice_of_spec(*name.spec, trace) : replay::choice_of(name, trace.info());
}

std::string name_in(const OpenTrace& trace, const MethodChoice& choice) {
  const auto called_so =
      std::ranges::count(trace.info().runs, choice.text, &trace::RunInfo::method);
  return choice.recorded() && called_so > 1 ? fmt::format("run:{}", choice.run) : choice.text;
}

MethodChoice choice_of_run(const trace::RunInfo& run, const OpenTrace& trace) {
  return replay::choice_of_run(run, trace.shape());
}

MethodChoice choice_in(const MethodChoice& choice, const OpenTrace& trace) {
  for (const trace::RunInfo& run : trace.info().runs)
    if (run.id == choice.run && run.method == choice.text) return choice_of_run(run, trace);
  if (choice.known()) return choice_of_spec(*choice.spec, trace);
  for (const trace::RunInfo& run : trace.info().runs)
    if (run.method == choice.text) return choice_of_run(run, trace);
  return {};
}

std::string default_spec(std::int32_t num_tokens) {
  return fmt::format("quoka:budget_tokens={}", selection::default_budget(num_tokens));
}

selection::MethodSpec budget_giver(const MethodChoice& method, std::int32_t num_tokens) {
  if (method.known() && method.spec->has_budget()) return *method.spec;
  return selection::MethodSpec::parse(default_spec(num_tokens));
}

}  // namespace kvloupe::state
