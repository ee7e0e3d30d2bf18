// A method as the views show it: a recorded run, or a SPEC selected anew on the stored Q and K. Text
// becomes a MethodSpec here and nowhere else in the window.
#pragma once

#include "app/state/open_trace.h"
#include "core/selection/method_spec.h"

#include <array>
#include <optional>
#include <string>

namespace kvloupe::state {

enum class Slot { A = 0, B = 1 };
inline constexpr std::array<Slot, 2> kSlots{Slot::A, Slot::B};
inline constexpr char letter_of(Slot slot) { return slot == Slot::A ? 'A' : 'B'; }
inline constexpr Slot other_than(Slot slot) { return slot == Slot::A ? Slot::B : Slot::A; }

struct MethodChoice {
  std::string text;  // canonical, or as recorded; empty: none
  int run = -1;      // number of the recorded run, -1: selected anew (open loop)
  // Resolved. Nothing for a recorded run of a method that this version does not know: what it
  // selected can be shown, and no more.
  std::optional<selection::MethodSpec> spec;

  bool empty() const { return text.empty(); }
  bool known() const { return spec.has_value(); }
  bool recorded() const { return run >= 0; }
  std::string id() const { return text.substr(0, text.find(':')); }
  std::string key() const { return text + "#" + std::to_string(run); }
  const trace::RunInfo* run_info(const trace::TraceInfo& info) const;
  bool operator==(const MethodChoice& other) const {
    return text == other.text && run == other.run;
  }
};

// A SPEC equal to a recorded run's is that run. Throws Error{Usage}.
MethodChoice choice_of_spec(const std::string& spec, const OpenTrace& trace);
MethodChoice choice_of_spec(const selection::MethodSpec& spec, const OpenTrace& trace);
// Selected anew even where the trace holds a run of it. The SPEC is resolved.
MethodChoice choice_anew(const selection::MethodSpec& spec);
// What a run of the trace is called, known or not; else a SPEC. Throws Error{Usage}.
MethodChoice choice_of_text(const std::string& text, const OpenTrace& trace);
MethodChoice choice_of_run(const trace::RunInfo& run, const OpenTrace& trace);
// What is shown where nothing was recorded: quoka, with the default budget.
std::string default_spec(std::int32_t num_tokens);

}  // namespace kvloupe::state
