#include "core/selection/spec/recorded_spec.h"

#include "core/trace/fields/trace_names.h"

#include <string>

namespace kvloupe::selection {

MethodSpec spec_of_run(const trace::RunInfo& run, const ModelShape& shape) {
  const MethodSpec spec = MethodSpec::parse(run.method).resolved(shape);
  if (describe_run(spec, shape).lowering == run.lowering) return spec;
  return spec.with({{"lowering", std::string(trace::to_text(run.lowering))}}).resolved(shape);
}

}  // namespace kvloupe::selection
