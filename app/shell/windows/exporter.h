// Exports what a view shows now: asks where to, asks before a file is replaced, and says what was
// written. Tables and arrays are made from the answers on screen; a picture is drawn by the command line.
#pragma once

#include "app/shell/windows/file_dialog.h"
#include "app/shell/windows/messages.h"
#include "app/state/view.h"
#include "app/state/view_state.h"
#include "app/state/workspace.h"
#include "core/base/cancel.h"
#include "core/base/run_self.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class Exporter {
 public:
  Exporter(state::Workspace& workspace, FileDialog& files, Messages& messages)
      : workspace_(workspace), files_(files), messages_(messages) {}

  // Opens the dialog; `folder` is where it begins.
  void ask(const state::ViewInfo& view, state::Format format, const std::string& folder);
  // The same of a picture that was described before.
  void ask(const state::ViewState& picture, const std::string& title, state::Format format,
           const std::string& folder);
  // The command line that makes the figure, for the clipboard.
  std::string command_of(const state::ViewInfo& view) const;
  static std::string command_of(const state::ViewState& picture);
  // The command line that opens the trace at what the window shows, or at a place of it, with the view
  // before others.
  std::string link_command_of(const state::ViewInfo* view,
                              const state::Place* place = nullptr) const;
  // "Replace it?" while that is open.
  void draw(const widgets::Palette& palette);
  // Runs the command line that draws the file, on a job's thread.
  CommandRunner run_command = run_self;

 private:
  struct Request {
    state::ViewState what;
    std::shared_ptr<state::Workspace>
        shown;  // as it was when that was asked for; null: it is drawn
    state::Format format;
    std::string file;
  };
  void ask_for_name(Request request, const std::string& title, const std::string& folder);
  void begin(const Request& request);
  void write(const Request& request);
  // "" on success, else a sentence.
  using Work = std::function<std::shared_ptr<const std::string>(const WorkContext&)>;
  static Work writing(const Request& request);
  Work drawing(const Request& request) const;

  state::Workspace& workspace_;
  FileDialog& files_;
  Messages& messages_;
  std::optional<Request> waiting_;  // for leave to replace a file
};

}  // namespace kvloupe::shell
