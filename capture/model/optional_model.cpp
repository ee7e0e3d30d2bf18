#include "capture/model/optional_model.h"

#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace kvloupe::capture {
namespace {

constexpr std::array<OptionalModel, 1> kOptionalModels = {
    {{"gemma3-270m", "Gemma 3 270M", "the Gemma Terms of Use, https://ai.google.dev/gemma/terms",
      "gemma-3-270m-q4_k_m.gguf", 240}}};

// The set-up of the checkout that the program was built in (cmake/Install.cmake).
std::filesystem::path set_up_script() { return paths::share_dir() / "checkout/cmake/deps.sh"; }

// What it says goes to standard error. The exit status, or -1.
int run_set_up(const std::string& model) {
  const std::string script = set_up_script().string();
  std::array<std::string, 4> words = {"bash", script, "model", model};
  std::array<char*, 5> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "bash", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::span<const OptionalModel> optional_models() { return kOptionalModels; }

const OptionalModel* find_optional_model(std::string_view name) {
  for (const OptionalModel& model : kOptionalModels)
    if (model.name == name) return &model;
  return nullptr;
}

std::filesystem::path folder_of_fetched_models() { return paths::cache_dir() / "models"; }

std::filesystem::path file_of(const OptionalModel& model) {
  return folder_of_fetched_models() / model.file;
}

void fetch(const OptionalModel& model, bool terms_accepted) {
  std::error_code code;
  if (std::filesystem::exists(file_of(model), code)) return;
  if (!terms_accepted)
    throw input_error(
        fmt::format("the model {} is not on this machine", model.name),
        fmt::format("{} is used under {}", model.title, model.terms),
        fmt::format("read them, then add --accept-terms, which fetches {} MB", model.megabytes));
  if (!std::filesystem::exists(set_up_script(), code))
    throw input_error(fmt::format("cannot fetch the model {}", model.name),
                      "this program is installed, and the set-up of a checkout fetches models",
                      fmt::format("run cmake/deps.sh model {} in a checkout: what it fetches is "
                                  "found from here",
                                  model.name));
  if (run_set_up(std::string(model.name)) != 0 || !std::filesystem::exists(file_of(model), code))
    throw input_error(fmt::format("cannot fetch the model {}", model.name),
                      "the set-up did not finish, as it says above",
                      "mend that and run the same command again");
}

}  // namespace kvloupe::capture
