// Messages for people, on standard error (results go to standard output).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace kvloupe::log {

enum class Level { Info, Warning, Error };

void set_quiet(bool quiet);  // hides Info
void write(Level level, const std::string& text);

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::Info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::Warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvloupe::log
