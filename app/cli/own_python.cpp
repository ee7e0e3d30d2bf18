#include "app/cli/own_python.h"

#include "app/shell/commands/run_self.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <string_view>

namespace kvloupe::cli {
namespace {

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// "error: what; why; what to do" of the package, or what Python itself said last.
Error refusal(const std::string& python, std::string_view said) {
  constexpr std::string_view kError = "error: ", kApart = "; ";
  if (said.starts_with(kError)) {
    said.remove_prefix(kError.size());
    const auto first = said.find(kApart), last = said.rfind(kApart);
    if (first != std::string_view::npos && last > first)
      return input_error(std::string(said.substr(0, first)),
                         std::string(said.substr(first + 2, last - first - 2)),
                         std::string(said.substr(last + 2)));
  }
  return input_error(fmt::format("{} cannot run the method", python), std::string(said),
                     "pip install numpy h5py, or name another Python by KVLOUPE_PYTHON");
}

}  // namespace

std::string OwnPython::method() const {
  const auto colon = function.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == function.size())
    throw usage_error(fmt::format("--python cannot take '{}'", function),
                      "it is a file and a function in it",
                      "write it as in --python my_methods.py:far_keys");
  return "custom:" + (name.empty() ? function.substr(colon + 1) : name);
}

void select_by_python(const std::string& trace, const OwnPython& own) {
  const std::string python = environment("KVLOUPE_PYTHON", "python3");
  const std::string path = environment("PYTHONPATH", "");
  std::vector<std::string> command{
      fmt::format("PYTHONPATH={}{}{}", (paths::share_dir() / "python").string(),
                  path.empty() ? "" : ":", path),
      python,
      "-m",
      "kvloupe",
      "select",
      trace,
      own.function,
      "--rows",
      own.rows,
      "--time-limit",
      std::to_string(own.seconds)};
  if (!own.name.empty()) command.insert(command.end(), {"--name", own.name});
  if (own.budget) command.insert(command.end(), {"--budget", std::to_string(*own.budget)});
  if (!own.layers.empty())
    command.insert(command.end(), {"--layers", fmt::format("{}", fmt::join(own.layers, ","))});
  shell::OwnCommand running(command, {"/usr/bin/env", "", false});
  running.finish();
  if (const std::string problem = running.problem(); !problem.empty())
    throw refusal(python, problem);
}

}  // namespace kvloupe::cli
