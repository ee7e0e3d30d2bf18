// What was open in a window that was killed: its session file, read and written again.
#include "app/shell/saved/session_file.h"
#include "app/shell/saved/state_files.h"
#include "core/base/paths.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  paths::set_config_dir(folder());
  shell::write_small_file(paths::state_dir() / "session-1.json", std::string(input));
  const shell::SessionFile file(true);
  if (!file.restored()) return;
  const shell::WindowSession session = *file.restored();
  require(session.tabs.empty() ? session.active == 0 : session.active < session.tabs.size(),
          "the active tab is one of those that were open");
  file.save(session);
}
