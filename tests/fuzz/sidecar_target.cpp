// A sidecar of runs beside a sound trace.
#include "tests/fuzz/target.h"
#include "tests/trace/trace_fixture.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  static const std::filesystem::path trace = [] {
    const auto path = folder() / "t.h5";
    std::filesystem::copy_file(std::filesystem::path(KVLOUPE_TEST_DATA_DIR) / "v1_h5py_tiny.h5",
                               path);
    return path;
  }();
  file_of(input, "t.h5.runs.h5");
  const trace::TraceReader reader(trace);
  for (const trace::RunInfo& run : reader.info().runs) {
    if (!run.from_sidecar) continue;
    for (const int layer : reader.info().layers) reader.read_run(run.id, layer);
  }
  trace::validate_trace(trace);
}
