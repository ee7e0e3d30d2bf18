// Asks for a file: by the desktop's own dialog where there is one, else by one inside the window, which works
// without any desktop service.
#pragma once

#include "app/shell/windows/desktop_dialog.h"
#include "app/widgets/palette.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::shell {

class FileDialog {
 public:
  enum class Purpose { OpenTrace, OpenFile, SaveFile };
  // `start`: folder, or for saving folder/name. `chosen` runs with the path when the user confirms.
  void open(Purpose purpose, const std::string& title, const std::filesystem::path& start,
            std::function<void(const std::string&)> chosen);
  void draw(const widgets::Palette& palette);
  bool is_open() const { return open_ || desktop_; }
  // The desktop's dialog is used where it has one.
  bool prefers_desktop = true;

 private:
  struct Entry {
    std::string name;
    bool folder = false;
    std::uintmax_t bytes = 0;
  };
  void open_here(const std::filesystem::path& start);
  void take_from_desktop();
  void enter(const std::filesystem::path& folder);
  void list_ui(const widgets::Palette& palette);
  void confirm();

  std::unique_ptr<DesktopDialog> desktop_;
  std::filesystem::path start_;
  double asked_ = 0;  // seconds, when the desktop's was opened
  bool open_ = false;
  bool appearing_ = false;
  Purpose purpose_ = Purpose::OpenTrace;
  std::string title_;
  std::filesystem::path folder_;
  std::string folder_text_, name_, problem_;
  std::vector<Entry> entries_;
  std::function<void(const std::string&)> chosen_;
};

}  // namespace kvloupe::shell
