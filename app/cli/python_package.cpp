#include "app/cli/python_package.h"

#include "app/shell/commands/run_self.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>

#include <string_view>

namespace kvloupe::cli {
namespace {

constexpr int kWrongUse = 2;  // the exit code

// "error: what; why; what to do" of the package, or what Python itself said last.
Error refusal(const std::string& python, std::string_view said, int code) {
  constexpr std::string_view kError = "error: ", kApart = "; ";
  if (said.starts_with(kError)) {
    said.remove_prefix(kError.size());
    const auto first = said.find(kApart), last = said.rfind(kApart);
    if (first != std::string_view::npos && last > first) {
      const auto error = code == kWrongUse ? usage_error : input_error;
      return error(std::string(said.substr(0, first)),
                   std::string(said.substr(first + 2, last - first - 2)),
                   std::string(said.substr(last + 2)));
    }
  }
  return input_error(fmt::format("{} cannot run KVLoupe's package", python), std::string(said),
                     "pip install numpy h5py, or name another Python by KVLOUPE_PYTHON");
}

}  // namespace

void run_python_package(const std::vector<std::string>& arguments) {
  const std::string chosen = paths::environment("KVLOUPE_PYTHON");
  const std::string python = chosen.empty() ? "python3" : chosen;
  const std::string path = paths::environment("PYTHONPATH");
  std::vector<std::string> command{
      fmt::format("PYTHONPATH={}{}{}", (paths::share_dir() / "python").string(),
                  path.empty() ? "" : ":", path),
      python, "-m", "kvloupe"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  shell::OwnCommand running(command, {"/usr/bin/env", "", false});
  running.finish();
  if (const std::string problem = running.problem(); !problem.empty())
    throw refusal(python, problem, running.exit_code());
}

}  // namespace kvloupe::cli
