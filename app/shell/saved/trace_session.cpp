#include "app/shell/saved/trace_session.h"

#include "app/shell/saved/state_files.h"
#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/output_file.h"
#include "core/base/paths.h"
#include "core/base/sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFormat = "kvloupe-session";

// A trace that is still recorded has the session that it will have under its own name.
fs::path finished(const fs::path& trace) {
  return trace.extension() == ".part" ? fs::path(trace).replace_extension() : trace;
}

fs::path beside(const fs::path& trace) { return finished(trace) += ".session.json"; }

fs::path in_state_folder(const fs::path& trace) {
  Sha256 hash;
  hash.update(fs::absolute(finished(trace)).string());
  return paths::state_dir() / fmt::format("notes-{}.json", hash.hex_digest().substr(0, 16));
}

// Null where there is none.
ordered_json read(const fs::path& path) {
  ordered_json json = read_small_json(path);
  const bool is_session = json.is_object() && json.value("format", ordered_json()) == kFormat;
  if (!json.is_null() && !is_session)
    throw input_error("cannot read the notes and names of runs in " + path.string(),
                      "it is no file of KVLoupe", "move it away; it is left as it is");
  return json;
}

}  // namespace

fs::path session_path(const fs::path& trace) {
  const fs::path path = beside(trace);
  const bool writable =
      ::access(path.c_str(), F_OK) == 0
          ? ::access(path.c_str(), W_OK) == 0 && ::access(folder_of(path).c_str(), W_OK) == 0
          : ::access(folder_of(path).c_str(), W_OK) == 0;
  return writable && !paths::comes_with_program(trace) ? path : in_state_folder(trace);
}

std::vector<ordered_json> read_sessions(const fs::path& trace) {
  std::vector<ordered_json> sessions;
  for (const fs::path& path : {beside(trace), in_state_folder(trace)})
    if (ordered_json json = read(path); !json.is_null()) sessions.push_back(std::move(json));
  return sessions;
}

void change_session(const fs::path& trace, const std::function<void(ordered_json&)>& change) {
  const fs::path path = session_path(trace);
  const FileLock lock(paths::state_dir() / "notes.lock", std::chrono::seconds(1));
  ordered_json json = read(path);
  if (json.is_null()) json = {{"format", kFormat}};
  change(json);
  write_small_file_or_throw(path, small_text_of(json));
}

}  // namespace kvloupe::shell
