// The window's settings and its list of recent files, read and written again.
#include "app/shell/saved/settings.h"
#include "app/shell/saved/state_files.h"
#include "core/base/paths.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  paths::set_config_dir(folder());
  std::filesystem::create_directories(paths::state_dir());
  file_of(input, "settings.json");
  const shell::Settings settings = shell::load_settings();
  require(settings.user_scale >= shell::kLeastScale && settings.user_scale <= shell::kMostScale &&
              settings.window_width > 0 && settings.window_height > 0,
          "settings are within their bounds");
  shell::save_settings(shell::text_of(settings));
  shell::write_small_file(paths::state_dir() / "recent.json", std::string(input));
  shell::add_recent_file("/t.h5");
  require(shell::load_recent_files().front() == "/t.h5", "the newest file comes first");
}
