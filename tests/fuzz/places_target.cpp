// Where the user was in each trace: read, one added, read again.
#include "app/shell/saved/places_file.h"
#include "app/shell/saved/state_files.h"
#include "core/base/paths.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  paths::set_config_dir(folder());
  shell::write_small_file(paths::state_dir() / "places.json", std::string(input));
  const auto before = shell::find_place("/a.h5");
  state::ViewState added;
  added.trace = "/b.h5";
  added.place = state::parse_goto("layer=1,chunk=2");
  added.methods = {"quoka", "", "h2o"};
  added.tried = {"dense"};
  added.shown = state::Slot::B;
  added.options = {{"kv_map.zoom", "fit"}};
  added.device = "sim";
  shell::save_places({added});
  require(shell::find_place("/b.h5") == added, "what was saved is read");
  // Fifty are kept: that of another trace may have been the oldest.
  const auto after = shell::find_place("/a.h5");
  require(!after || after == before, "what is kept of another trace stays as it is");
}
