// The SPEC of a recorded run: describe_run (method_spec.h) the other way round.
#pragma once

#include "core/selection/spec/method_spec.h"

namespace kvloupe::selection {

// With all parameters that this version knows: earlier ones wrote fewer. How masks became keys is what
// the run itself says, since a text without `lowering` meant the union. Throws as MethodSpec::parse().
MethodSpec spec_of_run(const trace::RunInfo& run, const ModelShape& shape);

}  // namespace kvloupe::selection
