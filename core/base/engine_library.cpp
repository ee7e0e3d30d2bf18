#include "core/base/engine_library.h"

#include "core/base/error.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>

#include <dlfcn.h>

namespace kvloupe {
namespace {

std::mutex loading;
std::atomic<bool> loaded{false};

// Beside the library (or, linked statically, the program) that this function is in.
std::filesystem::path engine_path() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&load_engine), &here);
  const std::filesystem::path file = here.dli_fname == nullptr ? "" : here.dli_fname;
  return file.parent_path() / "libkvloupe_engine.so";
}

}  // namespace

void load_engine() {
  if (loaded.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(loading);
  if (loaded.load(std::memory_order_relaxed)) return;
  // A library of Torch's ends the program where no current folder exists.
  std::error_code code;
  if (std::filesystem::current_path(code).empty())
    throw input_error("the working folder cannot be used", code.message(),
                      "change to a folder that exists");
  // Global: the program's calls are bound to it by name, at the first call of each function.
  // Lazy: to bind at once all that Torch calls takes another 30 ms.
  if (::dlopen(engine_path().c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    const char* reason = ::dlerror();
    throw input_error("the part of KVLoupe that computes cannot be loaded",
                      reason != nullptr ? reason : "the loader gave no reason",
                      "build the program again");
  }
  loaded.store(true, std::memory_order_release);
}

bool engine_loaded() noexcept { return loaded.load(std::memory_order_acquire); }

}  // namespace kvloupe
