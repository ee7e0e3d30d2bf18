// Where the user was in each trace: the window's session file.
#include "app/shell/places.h"
#include "app/shell/state_files.h"
#include "core/base/paths.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  static const state::TracePtr trace =
      state::open_trace((std::filesystem::path(KVLOUPE_TEST_DATA_DIR) / "v1_h5py_tiny.h5").string(),
                        std::make_shared<MemoryAccount>());
  paths::set_config_dir(folder());
  shell::write_small_file(paths::state_dir() / "places.json", std::string(input));
  state::TraceTab tab;
  tab.path = "/t.h5";
  tab.selection = state::initial_selection(trace, nullptr);
  shell::restore_place(tab);
  state::Place clamped = tab.selection.place;
  state::clamp(clamped);
  require(state::goto_text(clamped) == state::goto_text(tab.selection.place),
          "the place is one that the trace has");
  shell::save_places({shell::place_of(tab)});
}
