#include "tests/gui/results_steps.h"

#include "tests/gui/workspace_steps.h"

namespace kvloupe::test {

const std::string& results_file() {
  static const std::string path = KVLOUPE_TEST_DATA_DIR "/results/needles.h5";
  return path;
}

void open_results(state::Workspace& workspace) {
  workspace.results.open(results_file());
  settle(workspace);
}

}  // namespace kvloupe::test
