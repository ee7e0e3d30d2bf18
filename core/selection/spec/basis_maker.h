// Who makes the bases of basis=auto that were not made yet. It takes a model that reads text, so it is handed
// in by a program that has one. Without Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/trace_types.h"

#include <functional>

namespace kvloupe::selection {

// Both empty: what is not there is missing.
struct BasisMaker {
  // Whether the basis of the method is for the other to make.
  std::function<bool(const MethodSpec&, const trace::ModelInfo&)> is_due;
  // Makes it if it is due, else does nothing. Throws Error{Input}, Error{Cancelled}.
  std::function<void(const MethodSpec&, const trace::ModelInfo&, const WorkContext&)> make;
};

}  // namespace kvloupe::selection
