// A SPEC of a method or a task, as it is typed, stands in a trace or a state file.
#include "capture/tasks/task.h"
#include "core/base/error.h"
#include "core/selection/spec/method_files.h"
#include "tests/fuzz/shapes.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  if (input.starts_with("task ")) {
    capture::TaskSpec::parse(input.substr(5)).seed(0);
    return;
  }
  const auto spec = selection::MethodSpec::parse(input).resolved(small_shape());
  require(selection::MethodSpec::parse(spec.canonical()) == spec,
          "a canonical SPEC is itself a valid one");
  selection::files_of(spec);
  selection::title_of(spec);
  selection::describe_run(spec, small_shape());
  if (spec.has_budget()) require(spec.budget(1) >= 1, "a budget is at least one token");
  for (int layer = 0; layer < small_shape().num_layers; ++layer)
    selection::source_layer(spec, small_shape(), layer);
}
