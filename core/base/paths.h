// Where KVLoupe keeps things: XDG folders and the data that set-up fetched.
#pragma once

#include <filesystem>

namespace kvloupe::paths {

// $XDG_CONFIG_HOME/kvloupe unless --config-dir was given; created on first use.
std::filesystem::path config_dir();
void set_config_dir(std::filesystem::path dir);
// $XDG_STATE_HOME/kvloupe (recent files, crash recovery); inside --config-dir when that is given.
std::filesystem::path state_dir();
// $XDG_CACHE_HOME/kvloupe: what can be made again, such as calibrated bases. The environment variable
// KVLOUPE_CACHE_DIR overrides. Not created here: who only looks leaves no folder behind.
std::filesystem::path cache_dir();
// Content-addressed folder filled by kvloupe.sh: models/ words/ corpus/. The environment variable
// KVLOUPE_DATA_DIR overrides the path compiled in.
std::filesystem::path data_dir();

}  // namespace kvloupe::paths
