// What the program remembers between runs, in XDG folders: settings.json and layout.ini in the
// configuration folder, recent files in the state folder.
#pragma once

#include "app/widgets/theme.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

struct Settings {
  widgets::ThemeKind theme = widgets::ThemeKind::Dark;
  float user_scale = 1.0F;  // on top of what the display asks for
  int window_width = 1600;
  int window_height = 900;
  std::string last_folder;
  bool restore_places = true;  // a trace opens where it was left
};

inline constexpr float kLeastScale = 0.6F;
inline constexpr float kMostScale = 3.0F;

// A damaged or missing file gives the defaults; a damaged one is reported once.
Settings load_settings();
void save_settings(const Settings& settings);

// Most recent first.
std::vector<std::string> load_recent_files();
void add_recent_file(const std::string& path);

// Small files of the state folder; "" when there is none.
std::string load_state(const std::string& name);
void save_state(const std::string& name, const std::string& text);

// ImGui's docking layout.
std::string load_layout();
void save_layout(const std::string& ini);

}  // namespace kvloupe::shell
