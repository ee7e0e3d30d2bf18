// Controls for the parameters of methods and tasks, made from what the catalogues say of them.
#pragma once

#include "app/state/method_draft.h"

#include <cstdint>
#include <string>

namespace kvloupe::shell {

// One control for one parameter. `value` is its text; an empty one stands for a default that is not
// known yet. `most` bounds a budget. True once a change is complete.
bool param_ui(const selection::ParamInfo& param, std::string& value,
              const std::string& value_of_default, std::int64_t most);
// All parameters of a method.
bool params_ui(state::MethodDraft& draft, const state::MethodDraft& defaults, std::int64_t most);

}  // namespace kvloupe::shell
