// See settings.h.
#include "app/shell/saved/settings.h"

#include "app/shell/commands/key_choices.h"
#include "app/shell/saved/state_files.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/paths.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostRecent = 9;
constexpr std::size_t kMostPanels = 256;
constexpr std::array<std::pair<widgets::ThemeChoice, const char*>, 3> kThemes{
    {{widgets::ThemeChoice::System, "system"},
     {widgets::ThemeChoice::Dark, "dark"},
     {widgets::ThemeChoice::Light, "light"}}};
constexpr std::array kScales{kLeastScale, 0.9F,  1.0F, 1.1F, 1.25F,
                             1.5F,        1.75F, 2.0F, 2.5F, kMostScale};

std::filesystem::path recent_file() { return paths::state_dir() / "recent.json"; }
std::filesystem::path layout_file() { return paths::config_dir() / "layout.ini"; }

// A file that is damaged is told of and passed over.
template <typename Read>
auto or_nothing(const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    log::warning("{}", error.what());
    return {};
  }
}

// Keys that are understood; of the others the commands keep their own.
void read_keys(const ordered_json& json, Settings& settings) {
  const auto found = json.find("keys");
  if (found == json.end()) return;
  const ordered_json& all = *found;
  std::string bad;
  if (!all.is_object()) bad = "all commands";
  const ordered_json none = ordered_json::object();
  for (const auto& [command, keys] : (all.is_object() ? all : none).items()) {
    const std::string text = keys.is_string() ? keys.get<std::string>() : "?";
    if (text.empty() || chord_of(text))
      settings.keys[command] = text;
    else
      bad += (bad.empty() ? "" : ", ") + printable(command);
  }
  if (!bad.empty() && settings.problem.empty())
    settings.problem = fmt::format(
        "The default keys are used for {}: settings.json names no keys that a keyboard has; set "
        "them "
        "under Help, Shortcuts",
        bad);
}

}  // namespace

Settings load_settings() {
  Settings settings;
  ordered_json json;
  try {
    json = read_small_json(paths::config_dir() / "settings.json");
  } catch (const Error& error) {
    settings.problem = fmt::format("The default settings are used: {}", error.what());
  }
  if (!json.is_null() && !json.is_object())
    settings.problem = "The default settings are used: settings.json holds none";
  const auto number = [&](const char* name, double fallback) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number() ? found->get<double>() : fallback;
  };
  const auto text = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const auto& [choice, word] : kThemes)
    if (text("theme") == word) settings.theme = choice;
  settings.user_scale =
      std::clamp(static_cast<float>(number("scale", 1.0)), kLeastScale, kMostScale);
  settings.window_width = static_cast<int>(std::clamp(number("width", 1600), 320.0, 16384.0));
  settings.window_height = static_cast<int>(std::clamp(number("height", 900), 240.0, 16384.0));
  if (const auto folder = json.find("last_folder"); folder != json.end())
    settings.last_folder = bytes_of_json(*folder).value_or("");
  const auto panels = [&](const char* name, std::vector<std::string>& ids) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_array()) return;
    for (const ordered_json& panel : *found)
      if (panel.is_string() && ids.size() < kMostPanels) ids.push_back(panel.get<std::string>());
  };
  panels("closed_panels", settings.closed_panels);
  panels("opened_panels", settings.opened_panels);
  read_keys(json, settings);
  const auto flag = [&](const char* name, bool& value) {
    const auto found = json.find(name);
    if (found != json.end() && found->is_boolean()) value = found->get<bool>();
  };
  flag("text_line", settings.text_line);
  flag("desktop_dialogs", settings.desktop_dialogs);
  return settings;
}

float next_scale(float scale, bool larger) {
  constexpr float kSame = 0.01F;
  if (larger) {
    for (const float one : kScales)
      if (one > scale + kSame) return one;
    return kScales.back();
  }
  for (std::size_t i = kScales.size(); i-- > 0;)
    if (kScales[i] < scale - kSame) return kScales[i];
  return kScales.front();
}

std::string text_of(const Settings& settings) {
  const char* theme = "";
  for (const auto& [choice, word] : kThemes)
    if (settings.theme == choice) theme = word;
  const ordered_json json{{"theme", theme},
                          {"scale", settings.user_scale},
                          {"width", settings.window_width},
                          {"height", settings.window_height},
                          {"last_folder", json_of_bytes(settings.last_folder)},
                          {"closed_panels", settings.closed_panels},
                          {"opened_panels", settings.opened_panels},
                          {"keys", settings.keys},
                          {"text_line", settings.text_line},
                          {"desktop_dialogs", settings.desktop_dialogs}};
  return json.dump(2) + "\n";
}

void save_settings(const std::string& text) {
  write_small_file(paths::config_dir() / "settings.json", text);
}

std::vector<std::string> load_recent_files() {
  const ordered_json json = or_nothing([] { return read_small_json(recent_file()); });
  std::vector<std::string> files;
  if (!json.is_array()) return files;
  for (const ordered_json& entry : json)
    if (const auto file = bytes_of_json(entry); file && files.size() < kMostRecent)
      files.push_back(*file);
  return files;
}

void add_recent_file(const std::string& path) {
  std::vector<std::string> files = load_recent_files();
  std::erase(files, path);
  files.insert(files.begin(), path);
  if (files.size() > kMostRecent) files.resize(kMostRecent);
  ordered_json json = ordered_json::array();
  for (const std::string& file : files) json.push_back(json_of_bytes(file));
  write_small_json(recent_file(), json);
}

std::string load_layout() {
  return or_nothing([] { return read_small_file(layout_file()); });
}

void save_layout(const std::string& ini) { write_small_file(layout_file(), ini); }

}  // namespace kvloupe::shell
