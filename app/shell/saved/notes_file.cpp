#include "app/shell/saved/notes_file.h"

#include "app/shell/saved/trace_session.h"
#include "app/shell/saved/view_state_json.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kNotes = "notes";
constexpr std::size_t kMostNotes = 1000;

// Nothing where the session has none.
std::vector<Note> notes_in(const ordered_json& json, const fs::path& trace) {
  const auto list = json.find(kNotes);
  if (list == json.end()) return {};
  if (!list->is_array())
    throw input_error("cannot read the notes of " + trace.string(), "they are no list",
                      "move its .session.json away");
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
  return list;
}

}  // namespace

std::vector<Note> load_notes(const fs::path& trace) {
  std::vector<Note> notes;
  for (const ordered_json& json : read_sessions(trace))
    for (Note& more : notes_in(json, trace))
      if (std::none_of(notes.begin(), notes.end(), [&](const Note& n) { return n.id == more.id; }))
        notes.push_back(std::move(more));
  return notes;
}

void save_notes(const fs::path& trace, const std::vector<NoteChange>& changes) {
  change_session(trace, [&](ordered_json& json) {
    std::vector<Note> notes = notes_in(json, trace);
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
    json[kNotes] = json_of(notes);
  });
}

std::string new_note_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace kvloupe::shell
