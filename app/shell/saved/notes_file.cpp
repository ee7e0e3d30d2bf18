#include "app/shell/saved/notes_file.h"

#include "app/shell/saved/state_files.h"
#include "app/shell/saved/view_state_json.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/paths.h"
#include "core/base/sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <random>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFormat = "kvloupe-session";
constexpr std::size_t kMostNotes = 1000;

// A trace that is still recorded has the notes that it will have under its own name.
fs::path finished(const fs::path& trace) {
  return trace.extension() == ".part" ? fs::path(trace).replace_extension() : trace;
}

fs::path beside(const fs::path& trace) { return finished(trace) += ".session.json"; }

fs::path in_state_folder(const fs::path& trace) {
  Sha256 hash;
  hash.update(fs::absolute(finished(trace)).string());
  return paths::state_dir() / fmt::format("notes-{}.json", hash.hex_digest().substr(0, 16));
}

// Nothing where there is no file.
std::vector<Note> notes_in(const fs::path& path, const fs::path& trace) {
  const ordered_json json = read_small_json(path);
  if (json.is_null()) return {};
  const auto refuse = [&] {
    return input_error("cannot read the notes in " + path.string(), "it is no file of notes",
                       "move it away, or name it otherwise");
  };
  if (!json.is_object() || json.value("format", ordered_json()) != kFormat) throw refuse();
  const auto list = json.find("notes");
  if (list == json.end() || !list->is_array()) throw refuse();
  std::vector<Note> notes;
  for (const ordered_json& entry : *list) {
    if (!entry.is_object() || notes.size() == kMostNotes) continue;
    const auto text_of = [&](const char* name) {
      const auto found = entry.find(name);
      return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
    };
    Note note;
    note.id = text_of("id");
    note.text = text_of("text");
    if (const auto at = entry.find("at"); at != entry.end()) note.at = state_of_json(*at);
    note.at.trace = trace.string();
    if (!note.id.empty()) notes.push_back(std::move(note));
  }
  return notes;
}

ordered_json json_of(const std::vector<Note>& notes) {
  ordered_json list = ordered_json::array();
  for (const Note& note : notes) {
    state::ViewState at = note.at;
    at.trace.clear();  // the trace may be moved, and its notes with it
    list.push_back({{"id", note.id}, {"text", note.text}, {"at", json_of_state(at)}});
  }
  return {{"format", kFormat}, {"notes", std::move(list)}};
}

}  // namespace

fs::path notes_path(const fs::path& trace) {
  const fs::path path = beside(trace);
  const bool writable =
      ::access(path.c_str(), F_OK) == 0
          ? ::access(path.c_str(), W_OK) == 0 && ::access(folder_of(path).c_str(), W_OK) == 0
          : ::access(folder_of(path).c_str(), W_OK) == 0;
  return writable ? path : in_state_folder(trace);
}

std::vector<Note> load_notes(const fs::path& trace) {
  std::vector<Note> notes = notes_in(beside(trace), trace);
  for (Note& more : notes_in(in_state_folder(trace), trace))
    if (std::none_of(notes.begin(), notes.end(), [&](const Note& n) { return n.id == more.id; }))
      notes.push_back(std::move(more));
  return notes;
}

void save_notes(const fs::path& trace, const std::vector<NoteChange>& changes) {
  const fs::path path = notes_path(trace);
  const FileLock lock(paths::state_dir() / "notes.lock", std::chrono::seconds(1));
  std::vector<Note> notes = notes_in(path, trace);
  for (const NoteChange& change : changes) {
    const auto found = std::find_if(notes.begin(), notes.end(),
                                    [&](const Note& note) { return note.id == change.id; });
    if (!change.note) {
      if (found != notes.end()) notes.erase(found);
    } else if (found != notes.end()) {
      *found = *change.note;
    } else {
      notes.push_back(*change.note);
    }
  }
  write_small_json(path, json_of(notes));
}

std::string new_note_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace kvloupe::shell
