#include "app/cli/own_method.h"

#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/printable.h"
#include "core/base/python_package.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace kvloupe::cli {

std::filesystem::path plugin_folder() { return paths::config_dir() / "plugins"; }

namespace {

std::vector<std::string> names_of_plugins() {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(plugin_folder(), code))
    if (entry.path().extension() == ".so") names.push_back(printable(entry.path().stem().string()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string OwnMethod::function() const {
  if (plugin.empty()) return python;
  const auto in_names = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  if (!std::all_of(plugin.begin(), plugin.end(), in_names)) return plugin;
  const std::filesystem::path file = plugin_folder() / (plugin + ".so");
  std::error_code code;
  if (!std::filesystem::exists(file, code)) {
    const std::vector<std::string> names = names_of_plugins();
    throw input_error(
        fmt::format("there is no plug-in '{}'", printable(plugin)),
        fmt::format("{} has {}", printable(plugin_folder().string()),
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
        fmt::format("put {}.so there, or write --plugin LIBRARY.so:FUNCTION", printable(plugin)));
  }
  return file.string() + ":" + plugin;
}

std::string OwnMethod::method() const {
  const std::string named = function();
  const auto colon = named.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == named.size())
    throw usage_error(
        fmt::format("{} cannot take '{}'", plugin.empty() ? "--python" : "--plugin", named),
        "it is a file and a function in it",
        plugin.empty() ? "write it as in --python my_methods.py:far_keys"
                       : "write it as in --plugin libmine.so:far_keys");
  return "custom:" + (name.empty() ? named.substr(colon + 1) : name);
}

void select_by(const std::string& trace, const OwnMethod& own) {
  std::vector<std::string> arguments{"select",
                                     trace,
                                     own.function(),
                                     "--rows",
                                     own.rows,
                                     "--time-limit",
                                     std::to_string(own.seconds)};
  if (!own.plugin.empty()) arguments.emplace_back("--plugin");
  if (own.bytes_of_memory)
    arguments.insert(
        arguments.end(),
        {"--memory-limit", std::to_string(std::max<std::uint64_t>(1, *own.bytes_of_memory >> 20))});
  if (!own.name.empty()) arguments.insert(arguments.end(), {"--name", own.name});
  if (own.budget) arguments.insert(arguments.end(), {"--budget", std::to_string(*own.budget)});
  if (!own.layers.empty())
    arguments.insert(arguments.end(), {"--layers", fmt::format("{}", fmt::join(own.layers, ","))});
  run_python_package(arguments);
}

}  // namespace kvloupe::cli
