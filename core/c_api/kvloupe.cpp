// libkvloupe.so, all of it: the functions of kvloupe.h, and how the engine is loaded. It is linked to nothing of the project.
//
// The engine needs the Torch that it was built for, and a process may hold another one already under the same names (Python
// with its own torch). So the engine and all that it is linked to are loaded into a namespace of their own (dlmopen), with a C
// library of its own. Both sides share the loader and the heap (heap.c), and nothing else: no exception and no stream passes from
// one to the other (calls.h).
#include "core/c_api/kvloupe.h"

#include "core/c_api/calls.h"
#include "core/c_api/heap.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace {

using kvloupe::c_api::Calls;
using kvloupe::c_api::ErrorText;

// Without a destructor: a thread may end after the library.
thread_local ErrorText last_error{};

std::mutex loading;
std::atomic<const Calls*> loaded{nullptr};

int fail(int code, const std::string& sentence) {
  const std::size_t length = std::min(sentence.size(), kvloupe::c_api::kMostOfError - 1);
  std::memcpy(last_error.text, sentence.data(), length);
  last_error.text[length] = '\0';
  return code;
}

int usage(const std::string& what, const std::string& why, const std::string& remedy) {
  return fail(KVLOUPE_ERROR_USAGE, what + "; " + why + "; " + remedy);
}

int not_loaded(const std::string& why, const std::string& remedy) {
  return fail(KVLOUPE_ERROR_INPUT,
              "the part of KVLoupe that computes cannot be loaded; " + why + "; " + remedy);
}

// Beside this library in a build folder; where it is installed, in a folder kvloupe beside it.
std::string engine_file() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&kvloupe_abi_version), &here);
  std::error_code code;
  const auto file =
      std::filesystem::canonical(here.dli_fname == nullptr ? "" : here.dli_fname, code);
  for (const char* folder : {"", "kvloupe"}) {
    const auto engine = file.parent_path() / folder / "libkvloupe_engine.so";
    if (std::filesystem::exists(engine, code)) return engine.string();
  }
  return {};
}

std::string reason() {
  const char* said = ::dlerror();
  return said == nullptr ? "the loader gave no reason" : said;
}

#ifdef KVLOUPE_ONE_NAMESPACE  // built with a sanitizer, which cannot be there twice
void* load(const std::string& file) { return ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL); }
#else
// The environment as it is now, for good: the host may change its own at any time and free what it was. OpenMP's threads spin
// for a moment at a barrier, then sleep, as in the program (core/base/thread_waiting.h), unless the environment says how.
char** own_environment() {
  auto* copies = new std::vector<char*>();
  bool chosen = false;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    chosen |= text.starts_with("OMP_WAIT_POLICY=") || text.starts_with("GOMP_SPINCOUNT=");
    copies->push_back(::strdup(*entry));
  }
  if (!chosen) copies->push_back(::strdup("GOMP_SPINCOUNT=3000"));
  copies->push_back(nullptr);
  return copies->data();
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// The namespace with libkvloupe_heap.so, through which it shares this heap, and a C library with an environment of its own,
// before any other library there looks into it. Null where it cannot be had.
void* open_space(const std::filesystem::path& folder) {
  kvloupe_heap heap{};
  if (!find(RTLD_DEFAULT, "malloc", heap.malloc) || !find(RTLD_DEFAULT, "free", heap.free) ||
      !find(RTLD_DEFAULT, "calloc", heap.calloc) || !find(RTLD_DEFAULT, "realloc", heap.realloc) ||
      !find(RTLD_DEFAULT, "memalign", heap.memalign) ||
      !find(RTLD_DEFAULT, "malloc_usable_size", heap.malloc_usable_size))
    return nullptr;
  void* space =
      ::dlmopen(LM_ID_NEWLM, (folder / "libkvloupe_heap.so").c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (space == nullptr) return nullptr;
  decltype(&kvloupe_heap_set) set = nullptr;
  char*** environment = nullptr;
  if (!find(space, "kvloupe_heap_set", set) || !find(space, "environ", environment)) return nullptr;
  set(&heap);
  *environment = own_environment();
  return space;
}

void* load(const std::string& file) {
  static void* space = nullptr;  // stays: a later attempt goes on with it
  if (space == nullptr) space = open_space(std::filesystem::path(file).parent_path());
  Lmid_t id = 0;
  if (space == nullptr || ::dlinfo(space, RTLD_DI_LMID, &id) != 0) return nullptr;
  return ::dlmopen(id, file.c_str(), RTLD_LAZY | RTLD_LOCAL);
}
#endif

// KVLOUPE_OK when the engine is there.
int need_engine() {
  if (loaded.load(std::memory_order_acquire) != nullptr) return KVLOUPE_OK;
  const std::lock_guard lock(loading);
  if (loaded.load(std::memory_order_relaxed) != nullptr) return KVLOUPE_OK;
  // A library of Torch's ends the process where no current folder exists.
  std::error_code code;
  if (std::filesystem::current_path(code).empty())
    return not_loaded("the working folder cannot be used: " + code.message(),
                      "change to a folder that exists");
  const std::string file = engine_file();
  if (file.empty())
    return not_loaded(
        "libkvloupe_engine.so is neither beside libkvloupe.so nor in a folder kvloupe there",
        "build KVLoupe, or install it, and use libkvloupe.so from where it lies");
  void* engine = load(file);
  if (engine == nullptr)
    return not_loaded(reason(),
                      "build KVLoupe again, or start with fewer libraries in the process");
  const void* table = ::dlsym(engine, kvloupe::c_api::kCallsName);
  if (table == nullptr)
    return not_loaded("libkvloupe_engine.so is of another version", "build KVLoupe again");
  loaded.store(static_cast<const Calls*>(table), std::memory_order_release);
  return KVLOUPE_OK;
}

// Before threads of the engine take memory: until it has started a thread, this C library takes itself for the only user of the
// heap and leaves out its locks. Again in each selector, since a child that fork() made forgets it.
int prepare() {
  if (const int failed = need_engine()) return failed;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error& error) {
    return fail(
        KVLOUPE_ERROR_INPUT,
        std::string("no selector can be made; the system lets it start no further thread (") +
            error.what() + "); close other programs or raise the limit (ulimit -u)");
  }
  return KVLOUPE_OK;
}

const Calls& calls() { return *loaded.load(std::memory_order_acquire); }

// The structs as they were in the first version of this interface.
constexpr std::size_t kLeastModel = offsetof(kvloupe_model, model_hash) + sizeof(const char*);
constexpr std::size_t kLeastChunk = offsetof(kvloupe_chunk, novelty) + sizeof(const float*);
constexpr std::size_t kLeastBlocks = offsetof(kvloupe_blocks, abstains) + sizeof(const uint8_t*);

// A struct of the caller, who may know fewer members of it than this library: the rest is 0. False where it is too short.
template <typename Struct>
bool take(const Struct* given, std::size_t least, Struct& taken) {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < least) return false;
  taken = Struct{};
  std::memcpy(&taken, given, std::min<std::size_t>(size, sizeof taken));
  return true;
}

int no_selector() {
  return usage("the call cannot be made", "its selector is NULL",
               "make one by kvloupe_selector_create");
}

}  // namespace

uint32_t kvloupe_abi_version(void) { return KVLOUPE_ABI_VERSION; }
const char* kvloupe_version(void) { return KVLOUPE_VERSION; }
const char* kvloupe_last_error(void) { return last_error.text; }

int kvloupe_spec_facts(const char* spec, char* json, size_t room, size_t* length) {
  if (spec == nullptr || (json == nullptr && room > 0))
    return usage("the SPEC cannot be described", "a pointer is NULL",
                 "pass a SPEC and where the text goes");
  if (const int failed = need_engine()) return failed;
  return calls().spec_facts(spec, json, room, length, &last_error);
}

int kvloupe_selector_create(const char* spec, const kvloupe_model* model, int32_t threads,
                            kvloupe_selector** selector) {
  if (spec == nullptr || model == nullptr || selector == nullptr)
    return usage("no selector can be made", "a pointer is NULL",
                 "pass a SPEC, a model and where it goes");
  *selector = nullptr;
  kvloupe_model taken;
  if (!take(model, kLeastModel, taken))
    return usage("no selector can be made", "the model's size is not that of kvloupe_model",
                 "set its member size to sizeof(kvloupe_model)");
  if (const int failed = prepare()) return failed;
  return calls().create(spec, &taken, threads, selector, &last_error);
}

int kvloupe_selector_fork(const kvloupe_selector* selector, kvloupe_selector** copy) {
  if (selector == nullptr) return no_selector();
  if (copy == nullptr)
    return usage("no selector can be made", "a pointer is NULL", "pass where it goes");
  *copy = nullptr;
  if (const int failed = prepare()) return failed;
  return calls().fork(selector, copy, &last_error);
}

void kvloupe_selector_destroy(kvloupe_selector* selector) {
  if (selector != nullptr) calls().destroy(selector);
}

const char* kvloupe_selector_spec(const kvloupe_selector* selector) {
  return selector == nullptr ? nullptr : calls().spec(selector);
}

int kvloupe_selector_select(kvloupe_selector* selector, const kvloupe_chunk* chunk) {
  if (selector == nullptr) return no_selector();
  kvloupe_chunk taken;
  if (chunk == nullptr || !take(chunk, kLeastChunk, taken))
    return usage("the selector has no chunk",
                 "it is NULL, or its size is not that of kvloupe_chunk",
                 "set its member size to sizeof(kvloupe_chunk)");
  return calls().select(selector, &taken, &last_error);
}

int kvloupe_selector_alive(kvloupe_selector* selector, int32_t layer) {
  return selector == nullptr ? no_selector() : calls().alive(selector, layer, &last_error);
}

int kvloupe_selector_layout(const kvloupe_selector* selector, int32_t* row_axis, int64_t* num_rows,
                            int64_t* q_heads_per_row) {
  if (selector == nullptr) return no_selector();
  return calls().layout(selector, row_axis, num_rows, q_heads_per_row, &last_error);
}

int kvloupe_selector_row(const kvloupe_selector* selector, int64_t row, const int32_t** positions,
                         int64_t* count) {
  if (selector == nullptr) return no_selector();
  if (positions == nullptr || count == nullptr)
    return usage("the row cannot be given", "a pointer is NULL", "pass where it goes");
  return calls().row(selector, row, positions, count, &last_error);
}

int kvloupe_selector_rows(const kvloupe_selector* selector, const int32_t** positions,
                          const int64_t** offsets) {
  if (selector == nullptr) return no_selector();
  if (positions == nullptr || offsets == nullptr)
    return usage("the rows cannot be given", "a pointer is NULL", "pass where they go");
  return calls().rows(selector, positions, offsets, &last_error);
}

int kvloupe_selector_blocks(const kvloupe_selector* selector, kvloupe_blocks* blocks) {
  if (selector == nullptr) return no_selector();
  kvloupe_blocks taken;
  if (blocks == nullptr || !take(blocks, kLeastBlocks, taken))
    return usage("the blocks cannot be given",
                 "where they go is NULL, or its size is not that of kvloupe_blocks",
                 "set its member size to sizeof(kvloupe_blocks)");
  const std::uint32_t size = taken.size;
  taken = kvloupe_blocks{};
  taken.size = size;
  const int code = calls().blocks(selector, &taken, &last_error);
  if (code == KVLOUPE_OK)
    std::memcpy(blocks, &taken, std::min<std::size_t>(taken.size, sizeof taken));
  return code;
}

const char* kvloupe_selector_dense_reason(const kvloupe_selector* selector) {
  return selector == nullptr ? nullptr : calls().dense_reason(selector);
}

int kvloupe_selector_reset(kvloupe_selector* selector, int64_t past, int64_t chunk) {
  return selector == nullptr ? no_selector() : calls().reset(selector, past, chunk, &last_error);
}
