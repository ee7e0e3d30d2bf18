// Controls for the parameters of methods and tasks, made from what the catalogues say of them. Of a
// number with bounds the control is a slider, which takes typed numbers too.
#pragma once

#include "app/state/method_draft.h"
#include "app/widgets/palette.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::shell {

// What bounds a budget, and other parameters beyond which nothing changes: a count of a chunk's rows.
// Where the one is 0, or the other not named, there may be no slider.
struct ParamRoom {
  std::int64_t tokens = 0;             // of the trace
  std::map<std::string, double> most;  // by parameter
};

// Live: a slider is being dragged, and may have another value. Done: a change is complete.
enum class Edit { None, Live, Done };

// One control for one parameter. `value` is its text; an empty one stands for a default that is not
// known yet. Its name stands at the right, or not at all.
struct ParamControl {
  const selection::ParamInfo& param;
  std::string default_here;  // the default for this model
  ParamRoom room;
  bool named = true;
};
Edit param_ui(const ParamControl& control, std::string& value);
// All parameters of a method.
Edit params_ui(state::MethodDraft& draft, const state::MethodDraft& defaults,
               const ParamRoom& room);
// The same as a table, names at the left; those that differ from their default stand out. `only`: these
// alone, where there are any.
Edit params_table_ui(const widgets::Palette& palette, state::MethodDraft& draft,
                     const state::MethodDraft& defaults, const ParamRoom& room,
                     const std::vector<std::string>& only = {});

}  // namespace kvloupe::shell
