#include "core/base/engine_library.h"

#include "core/base/error.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <system_error>

#include <dlfcn.h>

namespace kvloupe {
namespace {

std::mutex loading;
std::atomic<void*> loaded{nullptr};

}  // namespace

std::filesystem::path engine_file() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&load_engine), &here);
  const std::filesystem::path file = here.dli_fname == nullptr ? "" : here.dli_fname;
  return file.parent_path() / "libkvloupe_engine.so";
}

void load_engine() {
  if (engine_loaded()) return;
  const std::lock_guard lock(loading);
  if (loaded.load(std::memory_order_relaxed) != nullptr) return;
  // A library of Torch's ends the program where no current folder exists.
  std::error_code code;
  if (std::filesystem::current_path(code).empty())
    throw input_error("the working folder cannot be used", code.message(),
                      "change to a folder that exists");
  // Lazy: to bind at once all that Torch calls takes another 30 ms.
  void* engine = ::dlopen(engine_file().c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (engine == nullptr) {
    const char* reason = ::dlerror();
    throw input_error("the part of KVLoupe that computes cannot be loaded",
                      reason != nullptr ? reason : "the loader gave no reason",
                      "build the program again");
  }
  loaded.store(engine, std::memory_order_release);
}

bool engine_loaded() noexcept { return loaded.load(std::memory_order_acquire) != nullptr; }

const void* engine_table(const char* name) {
  load_engine();
  const void* table = ::dlsym(loaded.load(std::memory_order_acquire), name);
  if (table == nullptr)
    throw input_error("the part of KVLoupe that computes cannot be used",
                      "libkvloupe_engine.so is of another version", "build the program again");
  return table;
}

}  // namespace kvloupe
