// See run_self.h.
#include "app/shell/run_self.h"

#include "core/base/error.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvloupe::shell {

std::string run_self(const std::vector<std::string>& arguments) {
  const auto refuse = [](int reason) {
    return input_error("the command line could not be started", std::strerror(reason),
                       "run the same command in a terminal");
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw refuse(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  // What it prints belongs to nobody who started a window.
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{"kvloupe"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int started =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (started != 0) {
    ::close(ends[0]);
    throw refuse(started);
  }
  std::string output;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  while (!output.empty() && output.back() == '\n') output.pop_back();
  const std::size_t line = output.rfind('\n');
  return output.empty() ? "error: the command ended without a message"
                        : output.substr(line == std::string::npos ? 0 : line + 1);
}

}  // namespace kvloupe::shell
