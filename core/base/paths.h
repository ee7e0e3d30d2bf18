// Where KVLoupe keeps things: XDG folders, and what comes with the program.
#pragma once

#include <filesystem>
#include <string>

namespace kvloupe::paths {

std::string environment(const char* name);  // empty where it is not set

// $XDG_CONFIG_HOME/kvloupe unless --config-dir was given; created on first use.
std::filesystem::path config_dir();
void set_config_dir(std::filesystem::path dir);
// $XDG_STATE_HOME/kvloupe (recent files, crash recovery); inside --config-dir when that is given.
std::filesystem::path state_dir();
// $XDG_CACHE_HOME/kvloupe: what can be made again, such as calibrated bases. The environment variable
// KVLOUPE_CACHE_DIR overrides. Not created here: who only looks leaves no folder behind.
std::filesystem::path cache_dir();
// What comes with the program: tours/ traces/ papers/ python/ data/. `share/kvloupe` beside the folder that
// the program is in, in a build folder as where it is installed.
std::filesystem::path share_dir();
// Whether the file is one of the traces that come with the program: nothing is written beside those.
bool comes_with_program(const std::filesystem::path& trace);
// models/ words/ corpus/ in it, which set-up fetched. The environment variable KVLOUPE_DATA_DIR
// overrides.
std::filesystem::path data_dir();

}  // namespace kvloupe::paths
