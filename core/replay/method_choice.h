// What a text names where a method is asked for: a SPEC, selected anew on the stored Q and K, or a run
// that the trace or its sidecar records. Free of Torch.
#pragma once

#include "core/base/error.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/trace_types.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// Before a trace is at hand.
struct MethodName {
  std::string text;                           // as written
  std::optional<selection::MethodSpec> spec;  // where the text is one
  std::optional<int> run;                     // of "run:3"
  // Where it is neither: what is wrong with it as a SPEC. A run of the trace may be called so.
  std::optional<Error> no_spec;

  MethodName() = default;
  // Throws Error{Usage} for "run:x".
  explicit MethodName(std::string name);
  MethodName(const selection::MethodSpec& known);  // NOLINT: every SPEC names itself

  // A number, or a name that no method has: custom:NAME, as imports and other programs call their runs.
  bool names_run() const;
  // Only a trace can say what it means.
  bool needs_trace() const { return no_spec.has_value(); }
  // For what computes and cannot use a record. Throws Error{Usage}.
  const selection::MethodSpec& required_spec() const;
};

// On a trace.
struct MethodChoice {
  std::string text;  // canonical, or as recorded; empty: none
  int run = -1;      // number of the recorded run, -1: selected anew (open loop)
  // Resolved. Nothing for a recorded run of a method that this version does not know: what it
  // selected can be shown and measured, and no more.
  std::optional<selection::MethodSpec> spec;

  bool empty() const { return text.empty(); }
  bool known() const { return spec.has_value(); }
  bool recorded() const { return run >= 0; }
  bool brought_in() const { return !known() && text.starts_with(selection::kBroughtIn); }
  std::string id() const { return selection::method_id(text); }
  std::string key() const { return text + "#" + std::to_string(run); }
  const trace::RunInfo* run_info(const trace::TraceInfo& info) const;
  bool operator==(const MethodChoice& other) const {
    return text == other.text && run == other.run;
  }
};

// Selected anew even where the trace holds a run of it. The SPEC is resolved.
MethodChoice choice_anew(const selection::MethodSpec& spec);
MethodChoice choice_of_run(const trace::RunInfo& run, const selection::ModelShape& shape);
// A SPEC is selected anew; a number and any other text name a run of the trace. Throws Error{Input} for
// a number that the trace has not, and what is wrong with a text that is no run's either.
MethodChoice choice_of(const MethodName& name, const trace::TraceInfo& info);

// The rows that its selections have.
selection::RowLayout layout_of(const MethodChoice& choice, const trace::TraceInfo& info);

// What differs from the method's defaults, but for the parameters `without`: "quoka:budget_tokens=256",
// "aqua". For people; itself a valid SPEC.
std::string short_name(const selection::MethodSpec& spec,
                       const std::vector<std::string>& without = {});
// "run 3: quoka:budget_tokens=256" of a recorded run, "custom:mine" of one that was brought in, else the same.
std::string short_name(const MethodChoice& choice);

}  // namespace kvloupe::replay
