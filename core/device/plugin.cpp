#include "core/device/plugin.h"

#include "core/base/engine_library.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

namespace kvloupe::device {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const Plugin& plugin) {
  if (const char* path = std::getenv(plugin.variable); path != nullptr && *path != '\0')
    return path;
  // Beside the engine; of programs that link it statically, as tests do, in the build folder's lib.
  std::error_code code;
  const fs::path beside = engine_file().parent_path() / plugin.file;
  if (fs::exists(beside, code)) return beside;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return program.parent_path().parent_path() / "lib" / plugin.file;
}

}  // namespace

const char* loader_message() {
  const char* message = ::dlerror();
  return message == nullptr ? "the loader gave no reason" : message;
}

void* load_symbol(const Plugin& plugin, const char* symbol) {
  const std::string what = fmt::format("{} cannot be used", plugin.device);
  const fs::path path = file_of(plugin);
  std::error_code code;
  if (!fs::exists(path, code))
    throw input_error(
        what,
        fmt::format("KVLoupe's {} was not built ({} is missing)", plugin.title, path.string()),
        fmt::format("{} {}", plugin.remedy, kUseCpu));
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw input_error(
        what, fmt::format("KVLoupe's {} does not load ({})", plugin.title, loader_message()),
        fmt::format("build it again for this machine {}", kUseCpu));
  void* found = ::dlsym(library, symbol);
  if (found == nullptr)
    throw input_error(what, fmt::format("{} is not a plug-in of this version", path.string()),
                      fmt::format("build it again {}", kUseCpu));
  return found;
}

}  // namespace kvloupe::device
