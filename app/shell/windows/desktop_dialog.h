// The desktop's own file dialog: a program such as zenity or kdialog that runs beside this one
// (portable-file-dialogs).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class DesktopDialog {
 public:
  // Begins to look for such a program, on another thread. Early, while this process holds little memory: the
  // library copies the process for each name that it tries.
  static void look_for();
  // Whether this machine has one. Waits for the end of the search.
  static bool is_there();

  // `start`: folder, or for saving folder/name. `filters`: a name and its patterns in turn. Whether a file
  // may be replaced is for the caller to ask.
  DesktopDialog(bool saves, const std::string& title, const std::filesystem::path& start,
                const std::vector<std::string>& filters);
  ~DesktopDialog();  // ends the program
  DesktopDialog(const DesktopDialog&) = delete;
  DesktopDialog& operator=(const DesktopDialog&) = delete;

  // Nothing while it is open; then the path, empty where the person cancelled. Does not wait.
  std::optional<std::string> poll();

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace kvloupe::shell
