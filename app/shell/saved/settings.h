// What the program remembers between runs, in XDG folders: settings.json and layout.ini in the
// configuration folder, recent files in the state folder.
#pragma once

#include "app/widgets/theme.h"

#include <map>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct Settings {
  widgets::ThemeChoice theme = widgets::ThemeChoice::System;
  float user_scale = 1.0F;  // on top of what the display asks for
  int window_width = 1600;
  int window_height = 900;
  std::string last_folder;
  std::vector<std::string> closed_panels;        // by id, of those open at first
  std::vector<std::string> opened_panels;        // of those closed at first
  bool restore_places = true;                    // a trace opens where it was left
  std::map<std::string, std::string> keys = {};  // of commands, by id (key_choices.h)
  bool text_line = true;                         // above the status bar
  bool desktop_dialogs = true;                   // of files, where the desktop has them
  std::string problem =
      {};  // what of the file was damaged, so that the defaults are used; never saved
};

inline constexpr float kLeastScale = 0.75F;
inline constexpr float kMostScale = 3.0F;
// The next one of the scales that are offered; the last one where there is none.
float next_scale(float scale, bool larger);

// A damaged or missing file gives the defaults, and a damaged part its own.
Settings load_settings();
// What is saved of them: equal texts, equal settings.
std::string text_of(const Settings& settings);
void save_settings(const std::string& text);

// Most recent first.
std::vector<std::string> load_recent_files();
void add_recent_file(const std::string& path);

// ImGui's docking layout; "" when there is none.
std::string load_layout();
void save_layout(const std::string& ini);

}  // namespace kvloupe::shell
