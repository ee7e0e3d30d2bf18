// What was open in a window, kept while it runs so that the next start goes on there: session-1.json
// and on in the state folder. Every window that runs has a file of its own.
#pragma once

#include "app/state/view_state.h"
#include "core/base/file_lock.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct WindowSession {
  std::vector<state::ViewState> tabs;  // from the left; their traces are absolute paths
  std::size_t active = 0;              // index in `tabs`
  state::ViewState results;            // of an evaluation that are open; no trace: none are
  std::map<std::string, state::ViewState> locks;  // by view
  int openings = 0;    // starts that went on from here and have not shown it yet
  bool ended = false;  // the user closed the window: only who starts without another one goes on
  bool operator==(const WindowSession&) const = default;
  bool is_empty() const { return tabs.empty() && results.trace.empty(); }
};

class SessionFile {
 public:
  // Takes a file that no other window has. With `restore` it is the one to go on from: the newest of
  // a window that was killed, or where no other window runs, the newest of all.
  explicit SessionFile(bool restore);

  // What there is to go on from.
  const std::optional<WindowSession>& restored() const { return restored_; }
  // Why the session is not opened or not saved, one sentence; empty: nothing is wrong.
  const std::string& problem() const { return problem_; }
  // From any thread. Nothing where every file is taken.
  void save(const WindowSession& session) const;

 private:
  std::filesystem::path path_;  // empty: none
  std::optional<FileLock> lock_;
  std::optional<WindowSession> restored_;
  std::string problem_;
};

}  // namespace kvloupe::shell
