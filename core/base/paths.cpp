// XDG base directories, and the folder beside the program.
#include "core/base/paths.h"

#include "core/base/error.h"

#include <cstdlib>
#include <mutex>
#include <system_error>
#include <utility>

namespace kvloupe::paths {
namespace {

namespace fs = std::filesystem;

std::mutex override_mutex;
fs::path config_dir_override;

// The XDG specification: a relative path in these variables is invalid and ignored.
fs::path xdg_dir(const char* variable, const char* below_home) {
  if (const fs::path dir = environment(variable); dir.is_absolute()) return dir / "kvloupe";
  if (const fs::path home = environment("HOME"); home.is_absolute()) {
    return home / below_home / "kvloupe";
  }
  throw input_error("the settings folder is unknown",
                    std::string("neither ") + variable + " nor HOME names a folder",
                    "set HOME or give --config-dir DIR");
}

fs::path created(fs::path dir) {
  std::error_code code;
  fs::create_directories(dir, code);
  if (code) {
    throw input_error("cannot create the folder " + dir.string(), code.message(),
                      "give another one by --config-dir DIR");
  }
  return dir;
}

fs::path given_config_dir() {
  const std::lock_guard lock(override_mutex);
  return config_dir_override;
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path config_dir() {
  const fs::path given = given_config_dir();
  return created(given.empty() ? xdg_dir("XDG_CONFIG_HOME", ".config") : given);
}

void set_config_dir(fs::path dir) {
  const std::lock_guard lock(override_mutex);
  config_dir_override = std::move(dir);
}

fs::path state_dir() {
  const fs::path given = given_config_dir();
  return created(given.empty() ? xdg_dir("XDG_STATE_HOME", ".local/state") : given / "state");
}

fs::path cache_dir() {
  const std::string given = environment("KVLOUPE_CACHE_DIR");
  return given.empty() ? xdg_dir("XDG_CACHE_HOME", ".cache") : fs::path(given);
}

fs::path share_dir() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return program.parent_path().parent_path() / "share" / "kvloupe";
}

bool comes_with_program(const fs::path& trace) {
  std::error_code none;  // a folder that is missing is not the same
  return fs::equivalent(fs::absolute(trace).parent_path(), share_dir() / "traces", none);
}

fs::path data_dir() {
  const std::string given = environment("KVLOUPE_DATA_DIR");
  return given.empty() ? share_dir() / "data" : fs::path(given);
}

}  // namespace kvloupe::paths
