// Bookmarks and notes of the trace that is shown: a list of places to go to again, with what was
// written beside each.
#pragma once

#include "app/shell/saved/background_writer.h"
#include "app/shell/saved/notes_file.h"
#include "app/shell/windows/messages.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kvloupe::shell {

class NotesWindow {
 public:
  explicit NotesWindow(Messages& messages) : messages_(messages) {}
  ~NotesWindow() { finish(); }

  // The body, in a window that is there.
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // Notes the place that is shown. Its text is what is typed next.
  void add(state::Workspace& workspace);
  // Of the trace that is shown, oldest first.
  std::vector<Note> notes(state::Workspace& workspace);
  // Goes to the note so many after the one that was gone to last, oldest first; false where there is none.
  bool step(state::Workspace& workspace, int by);
  // Which of notes() was gone to last; -1: none.
  std::ptrdiff_t index_here(state::Workspace& workspace);
  // What stands in it.
  std::string text_here(state::Workspace& workspace);
  // Saves what is being typed. All is on the disk when it returns.
  void finish();
  // Why notes are not on the disk, though all was tried; empty: they are.
  std::string unsaved();

 private:
  struct Notes {
    std::vector<Note> notes;
    std::vector<Note> removed;  // newest last
    std::string at;             // id of the one that was gone to last
    std::string problem;        // why the file cannot be read: it is left as it is
  };
  Notes& notes_of(const std::string& trace);
  void go(state::Workspace& workspace, Notes& notes, const Note& note);
  void note_ui(state::Workspace& workspace, const widgets::Palette& palette, Notes& notes,
               std::size_t index);
  // Brings back what was removed last.
  void bring_back(const std::string& trace, Notes& notes);
  void remove(const std::string& trace, Notes& notes, std::size_t index);
  void save(const std::string& trace, NoteChange change);
  void save_typed();

  Messages& messages_;
  std::map<std::string, Notes> by_trace_;
  std::string focus_;  // id of the note whose text is typed next
  std::string typed_;  // id of the one that is not saved yet
  struct Unsaved {
    std::string trace;
    NoteChange change;
    std::string why;
  };
  std::mutex unsaved_mutex_;
  std::map<std::string, Unsaved> unsaved_;  // by note
  BackgroundWriter writer_;                 // last: what it does uses the rest
};

}  // namespace kvloupe::shell
