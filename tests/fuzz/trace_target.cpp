// A trace: everything that commands and the window read of it, and all that validate looks at.
#include "tests/fuzz/target.h"
#include "tests/trace/trace_fixture.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  const auto path = file_of(input);
  trace::testing::read_everything(path);
  trace::validate_trace(path);
  const trace::TraceReader reader(path);
}
