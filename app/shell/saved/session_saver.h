// Keeps what the user did for the next start, every few seconds and at the end: settings, layout, the
// place in each trace, and which traces are open.
#pragma once

#include "app/shell/explorer.h"
#include "app/shell/saved/background_writer.h"
#include "app/shell/saved/places_file.h"
#include "app/shell/saved/session_file.h"
#include "app/state/workspace.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class SessionSaver {
 public:
  // Opens the traces, at a place where one is given; where none are named, those of the last session.
  SessionSaver(state::Workspace& workspace, Explorer& explorer,
               const std::vector<std::string>& traces,
               const std::optional<state::ViewState>& at = std::nullopt);
  ~SessionSaver();  // saves all

  // Once a frame: what has changed is saved, behind the frames.
  void tick();
  // All of it, before this returns: the program is about to end.
  void save_now();
  // The user closed the window: a second one that is started does not go on from it.
  void end() { ended_ = true; }

 private:
  void restore(const WindowSession& session);
  void save_changes();
  void save_settings_and_layout();
  void save_open_places();
  void save_session();
  bool still_opening() const;

  state::Workspace& workspace_;
  Explorer& explorer_;
  SessionFile file_;
  std::optional<WindowSession> saved_session_;
  std::string saved_settings_, saved_layout_;
  std::map<std::string, state::ViewState> saved_places_;  // by path
  std::chrono::steady_clock::time_point next_;
  bool ended_ = false;
  BackgroundWriter background_;  // last: what it does uses the rest
};

}  // namespace kvloupe::shell
