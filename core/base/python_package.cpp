#include "core/base/python_package.h"

#include "core/base/paths.h"

#include <fmt/format.h>

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

constexpr int kWrongUse = 2;  // the exit code

std::string python() {
  const std::string chosen = paths::environment("KVLOUPE_PYTHON");
  return chosen.empty() ? "python3" : chosen;
}

fs::path package_folder() { return paths::share_dir() / "python"; }

// As a shell looks for it.
bool is_program(const std::string& name) {
  const auto runs = [](const fs::path& file) {
    std::error_code none;
    return fs::is_regular_file(file, none) && ::access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return runs(name);
  std::istringstream folders(paths::environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (runs(fs::path(folder) / name)) return true;
  return false;
}

}  // namespace

std::string python_package_problem() {
  if (const std::string name = python(); !is_program(name))
    return fmt::format(
        "Python is not here; there is no program {}; install python3, or name one by "
        "KVLOUPE_PYTHON",
        name);
  std::error_code none;
  if (!fs::exists(package_folder() / "kvloupe", none))
    return fmt::format(
        "KVLoupe's package for Python is not here; there is no folder {}; install KVLoupe again",
        (package_folder() / "kvloupe").string());
  return "";
}

std::unique_ptr<OwnCommand> start_python_package(const std::vector<std::string>& arguments,
                                                 bool keep_output) {
  const std::string path = paths::environment("PYTHONPATH");
  std::vector<std::string> command{
      fmt::format("PYTHONPATH={}{}{}", package_folder().string(), path.empty() ? "" : ":", path)};
  // Python would leave files beside those that were installed, which nothing removes. A checkout is linked to.
  std::error_code none;
  if (!fs::is_symlink(package_folder(), none)) command.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  // Another of this name may be on the path.
  const fs::path program = paths::share_dir().parent_path().parent_path() / "bin" / "kvloupe";
  if (paths::environment("KVLOUPE_PROGRAM").empty() && is_program(program))
    command.push_back("KVLOUPE_PROGRAM=" + program.string());
  command.insert(command.end(), {python(), "-m", "kvloupe"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<OwnCommand>(command,
                                      OwnCommand::Options{"/usr/bin/env", "", keep_output});
}

// "error: what; why; what to do" of the package, or what Python itself said last.
Error error_of_python_package(const OwnCommand& ended, const char* needs) {
  constexpr std::string_view kError = "error: ", kApart = "; ";
  const std::string problem = ended.problem();
  std::string_view said = problem;
  if (said.starts_with(kError)) {
    said.remove_prefix(kError.size());
    const auto first = said.find(kApart), last = said.rfind(kApart);
    if (first != std::string_view::npos && last > first) {
      const auto error = ended.exit_code() == kWrongUse ? usage_error : input_error;
      return error(std::string(said.substr(0, first)),
                   std::string(said.substr(first + 2, last - first - 2)),
                   std::string(said.substr(last + 2)));
    }
  }
  return input_error(
      fmt::format("{} cannot run KVLoupe's package", python()), std::string(said),
      fmt::format("pip install {}, or name another Python by KVLOUPE_PYTHON", needs));
}

void run_python_package(const std::vector<std::string>& arguments) {
  const std::unique_ptr<OwnCommand> running = start_python_package(arguments, false);
  running->finish();
  if (!running->problem().empty()) throw error_of_python_package(*running);
}

}  // namespace kvloupe
