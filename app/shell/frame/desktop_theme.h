// Whether the desktop is light or dark. It is asked by a program of its own (gdbus asks the settings
// portal, gsettings where there is none), and no frame waits for the answer.
//
// The rule: dark where the desktop prefers dark, light where it says anything else, and dark where
// nobody answers.
#pragma once

#include "app/widgets/theme.h"
#include "core/base/run_self.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

// What one line of such an answer says; nothing: it is none.
std::optional<widgets::ThemeKind> theme_said(const std::string& line);

class DesktopTheme {
 public:
  using Commands = std::vector<std::vector<std::string>>;  // asked in this order
  explicit DesktopTheme(Commands commands = usual_commands());

  void ask();   // anew, unless it is being asked
  void poll();  // once a frame
  bool asking() const { return asked_ != nullptr; }
  widgets::ThemeKind kind() const { return kind_; }

  // None where no desktop session can be reached.
  static Commands usual_commands();

 private:
  void start_next();

  Commands commands_;
  std::size_t next_ = 0;
  std::unique_ptr<OwnCommand> asked_;
  std::chrono::steady_clock::time_point since_;
  std::optional<widgets::ThemeKind> said_;
  widgets::ThemeKind kind_ = widgets::ThemeKind::Dark;
};

}  // namespace kvloupe::shell
