// Places of a trace that the user wants to find again, each with a note: T.h5.session.json beside the
// trace, so that it goes along with it; in the state folder where that cannot be written.
#pragma once

#include "app/state/view_state.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct Note {
  std::string id;  // stays with it: two windows may change notes of one trace
  std::string text;
  state::ViewState at;  // the file of its trace is the one that it was read for
  bool operator==(const Note&) const = default;
};

// One that is added, changed, or, without `note`, removed.
struct NoteChange {
  std::string id;
  std::optional<Note> note;
};

// In the order in which they were made. Throws Error{Input}: a file is there and is none of notes.
std::vector<Note> load_notes(const std::filesystem::path& trace);

// Applies the changes to what the file has by now, from any thread and beside other windows. Throws
// Error{Input} as load_notes(), and leaves the file as it is then.
void save_notes(const std::filesystem::path& trace, const std::vector<NoteChange>& changes);

// An id that no other note has.
std::string new_note_id();

}  // namespace kvloupe::shell
