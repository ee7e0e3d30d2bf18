#include "app/cli/own_method.h"

#include "app/cli/python_package.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvloupe::cli {

std::string OwnMethod::method() const {
  const std::string& named = function();
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
  if (!own.name.empty()) arguments.insert(arguments.end(), {"--name", own.name});
  if (own.budget) arguments.insert(arguments.end(), {"--budget", std::to_string(*own.budget)});
  if (!own.layers.empty())
    arguments.insert(arguments.end(), {"--layers", fmt::format("{}", fmt::join(own.layers, ","))});
  run_python_package(arguments);
}

}  // namespace kvloupe::cli
