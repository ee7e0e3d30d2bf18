// Files that were dropped on the window together: each goes where it belongs, and one message sums up what
// could not be used and why.
#pragma once

#include "app/shell/windows/messages.h"
#include "app/state/workspace.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace kvloupe::shell {

// What a file is, by its name and its first bytes.
enum class DroppedKind { Trace, Model, Prompt, Chat, Tour, Layout, Notes, Missing, Unknown };
struct DroppedFile {
  std::string path;
  DroppedKind kind = DroppedKind::Unknown;
};
DroppedFile dropped_file(const std::string& path);  // reads its first bytes

class DroppedFiles {
 public:
  struct Takers {
    std::function<bool(const std::string& path)> take_model;   // by the form of a new capture
    std::function<bool(const std::string& path)> take_prompt;  // the same
    std::function<void(const std::string& path)> take_layout;  // says what is wrong
    std::function<void(const std::string& path)> take_tour;    // the same
  };
  DroppedFiles(state::Workspace& workspace, Messages& messages, Takers takers)
      : workspace_(workspace), messages_(messages), takers_(std::move(takers)) {}

  // The files are looked at in the background.
  void drop(std::vector<std::string> paths);
  // Once a frame: says what could not be used, once all traces are open or refused.
  void tick();
  // A message of the traces: true where it is of one of those dropped, and will be said with the others.
  bool take_message(const std::string& text, bool is_error);

 private:
  void use(const std::vector<DroppedFile>& files);
  void refuse(const std::string& path, const std::string& why);

  state::Workspace& workspace_;
  Messages& messages_;
  Takers takers_;
  std::set<std::string> opening_;     // traces
  std::vector<std::string> refused_;  // a sentence each
  std::size_t num_dropped_ = 0;
};

}  // namespace kvloupe::shell
