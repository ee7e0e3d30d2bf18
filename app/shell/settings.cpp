// See settings.h.
#include "app/shell/settings.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/paths.h"
#include "core/base/whole_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvloupe::shell {
namespace {

constexpr std::size_t kMostRecent = 9;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A folder that cannot be written must not keep anybody from looking at a trace.
void write_quietly(const std::filesystem::path& path, const std::string& text) {
  try {
    std::filesystem::create_directories(path.parent_path());
    write_whole_file(path.string(), text);
  } catch (const std::exception& error) {
    log::warning("settings were not saved: {}", error.what());
  }
}

}  // namespace

Settings load_settings() {
  Settings settings;
  const std::filesystem::path path = paths::config_dir() / "settings.json";
  if (!std::filesystem::exists(path)) return settings;
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object()) {
    log::warning("{} is damaged; the defaults are used", path.string());
    return settings;
  }
  const auto number = [&](const char* name, double fallback) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number() ? found->get<double>() : fallback;
  };
  const auto text = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  settings.theme = text("theme") == "light" ? widgets::ThemeKind::Light : widgets::ThemeKind::Dark;
  settings.user_scale =
      std::clamp(static_cast<float>(number("scale", 1.0)), kLeastScale, kMostScale);
  settings.window_width = static_cast<int>(std::clamp(number("width", 1600), 320.0, 16384.0));
  settings.window_height = static_cast<int>(std::clamp(number("height", 900), 240.0, 16384.0));
  settings.last_folder = text("last_folder");
  return settings;
}

void save_settings(const Settings& settings) {
  const nlohmann::ordered_json json{
      {"theme", settings.theme == widgets::ThemeKind::Light ? "light" : "dark"},
      {"scale", settings.user_scale},
      {"width", settings.window_width},
      {"height", settings.window_height},
      {"last_folder", settings.last_folder}};
  write_quietly(paths::config_dir() / "settings.json", json.dump(2) + "\n");
}

std::vector<std::string> load_recent_files() {
  const auto json = nlohmann::json::parse(load_state("recent.json"), nullptr, false);
  std::vector<std::string> files;
  if (!json.is_array()) return files;
  for (const auto& entry : json)
    if (entry.is_string() && files.size() < kMostRecent) files.push_back(entry);
  return files;
}

void add_recent_file(const std::string& path) {
  std::vector<std::string> files = load_recent_files();
  std::erase(files, path);
  files.insert(files.begin(), path);
  if (files.size() > kMostRecent) files.resize(kMostRecent);
  save_state("recent.json", nlohmann::json(files).dump(2) + "\n");
}

std::string load_state(const std::string& name) { return read_text(paths::state_dir() / name); }

void save_state(const std::string& name, const std::string& text) {
  write_quietly(paths::state_dir() / name, text);
}

std::string load_layout() { return read_text(paths::config_dir() / "layout.ini"); }

void save_layout(const std::string& ini) { write_quietly(paths::config_dir() / "layout.ini", ini); }

}  // namespace kvloupe::shell
