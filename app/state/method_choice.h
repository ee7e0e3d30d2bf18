// A method as the views show it: a recorded run, or a SPEC selected anew on the stored Q and K. Text
// becomes a MethodSpec here and nowhere else in the window.
#pragma once

#include "app/state/open_trace.h"
#include "app/state/slot.h"
#include "core/replay/method_choice.h"
#include "core/selection/spec/method_spec.h"

#include <string>

namespace kvloupe::state {

using replay::choice_anew;
using replay::MethodChoice;

// A SPEC equal to a recorded run's is that run. Throws Error{Usage}.
MethodChoice choice_of_spec(const std::string& spec, const OpenTrace& trace);
MethodChoice choice_of_spec(const selection::MethodSpec& spec, const OpenTrace& trace);
// What a run of the trace is called, known or not, or its number as in "run:3"; else a SPEC. Throws
// Error{Usage}, and Error{Input} for a number that the trace has not.
MethodChoice choice_of_text(const std::string& text, const OpenTrace& trace);
// The text that leads choice_of_text back to it: where several runs are called so, its number.
std::string name_in(const OpenTrace& trace, const MethodChoice& choice);
MethodChoice choice_of_run(const trace::RunInfo& run, const OpenTrace& trace);
// The same method on another trace: its run there, or selected anew; empty for one that is known by a run
// alone, where that trace has none of its name.
MethodChoice choice_in(const MethodChoice& choice, const OpenTrace& trace);
// What is shown where nothing was recorded: quoka, with the default budget.
std::string default_spec(std::int32_t num_tokens);
// The method itself where it has a budget, else that one: whose budget others take to stand beside it.
selection::MethodSpec budget_giver(const MethodChoice& method, std::int32_t num_tokens);

}  // namespace kvloupe::state
