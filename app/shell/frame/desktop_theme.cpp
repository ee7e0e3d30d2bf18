#include "app/shell/frame/desktop_theme.h"

#include "core/base/error.h"

#include <cstdlib>
#include <filesystem>

namespace kvloupe::shell {
namespace {

using widgets::ThemeKind;

constexpr std::chrono::seconds kPatience{2};

// Without one gdbus would start a bus of its own.
bool session_bus_is_there() {
  if (std::getenv("DBUS_SESSION_BUS_ADDRESS") != nullptr) return true;
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  std::error_code none;
  return folder != nullptr && std::filesystem::exists(std::filesystem::path(folder) / "bus", none);
}

}  // namespace

// "(<<uint32 1>>,)" of the portal: 1 prefers dark, 2 light, 0 neither. "'prefer-dark'" of gsettings.
std::optional<ThemeKind> theme_said(const std::string& line) {
  const auto has = [&](const char* words) { return line.find(words) != std::string::npos; };
  if (has("uint32 1>") || has("'prefer-dark'")) return ThemeKind::Dark;
  if (has("uint32 0>") || has("uint32 2>") || has("'prefer-light'") || has("'default'"))
    return ThemeKind::Light;
  return std::nullopt;
}

DesktopTheme::Commands DesktopTheme::usual_commands() {
  if (!session_bus_is_there()) return {};
  return {
      {"gdbus", "call", "--session", "--timeout", "1", "--dest", "org.freedesktop.portal.Desktop",
       "--object-path", "/org/freedesktop/portal/desktop", "--method",
       "org.freedesktop.portal.Settings.Read", "org.freedesktop.appearance", "color-scheme"},
      {"gsettings", "get", "org.gnome.desktop.interface", "color-scheme"}};
}

DesktopTheme::DesktopTheme(Commands commands) : commands_(std::move(commands)) {}

void DesktopTheme::ask() {
  if (asking()) return;
  next_ = 0;
  said_.reset();
  start_next();
}

void DesktopTheme::start_next() {
  asked_.reset();
  if (next_ == commands_.size()) return;  // what was known stays
  OwnCommand::Options options;
  options.program = "/usr/bin/env";
  since_ = std::chrono::steady_clock::now();
  try {
    asked_ = std::make_unique<OwnCommand>(commands_[next_++], options);
  } catch (const Error&) {
    start_next();
  }
}

void DesktopTheme::poll() {
  if (!asking()) return;
  for (const std::string& line : asked_->poll())
    if (const auto said = theme_said(line)) said_ = said;
  // It is waited for: one that is left behind stays with the system as long as the window.
  if (said_ && asked_->ended()) {
    kind_ = *said_;
    asked_.reset();
    return;
  }
  if (std::chrono::steady_clock::now() - since_ > kPatience) asked_->kill();
  if (said_) return;
  if (asked_->ended() || std::chrono::steady_clock::now() - since_ > 2 * kPatience) start_next();
}

}  // namespace kvloupe::shell
