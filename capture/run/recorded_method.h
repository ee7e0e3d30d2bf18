// A method as a capture or a request runs it.
#pragma once

#include "core/selection/selector.h"
#include "core/trace/trace_types.h"

#include <vector>

namespace kvloupe::capture {

struct RecordedMethod {
  selection::MethodSpec spec;  // resolved
  selection::BasisPtr basis;   // where the method needs one
};

// For a model and the layers in which the method selects. Throws Error{Input} where it cannot serve them, before anything
// runs.
RecordedMethod recorded_method(const selection::MethodSpec& spec, const trace::ModelInfo& model,
                               const std::vector<int>& layers);
std::vector<int> all_layers(const trace::ModelInfo& model);

}  // namespace kvloupe::capture
