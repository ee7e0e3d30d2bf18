// See run_self.h.
#include "core/base/run_self.h"

#include "core/base/error.h"
#include "core/base/whole_file.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

namespace kvloupe {
namespace {

constexpr std::size_t kMostSaid = std::size_t{1} << 16;

Error refusal(int reason) {
  return input_error("the command line could not be started", std::strerror(reason),
                     "run the same command in a terminal");
}

// Closes itself.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int take() { return std::exchange(number, -1); }
};

struct Pipe {
  Descriptor from, to;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw refusal(errno);
    from.number = ends[0];
    to.number = ends[1];
    ::fcntl(from.number, F_SETFL, O_NONBLOCK);
  }
};

// A file in memory, to be read from its beginning: a pipe would have to be filled bit by bit.
Descriptor file_of(std::string_view text) {
  Descriptor file{::memfd_create("standard input", MFD_CLOEXEC)};
  if (file.number < 0) throw refusal(errno);
  if (const int reason = write_all(file.number, text); reason != 0) throw refusal(reason);
  ::lseek(file.number, 0, SEEK_SET);
  return {file.take()};
}

// What exec takes. The words must outlive it.
class Argv {
 public:
  explicit Argv(const std::vector<std::string>& arguments) : words_{"kvloupe"} {
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

// interrupt() ends it also where this program was started in the background of a script, which ignores Ctrl+C.
struct Interruptible {
  posix_spawnattr_t attributes;
  Interruptible() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  }
  ~Interruptible() { posix_spawnattr_destroy(&attributes); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All that is there now.
void read_what_is_there(int descriptor, std::string& text) {
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
}

}  // namespace

OwnCommand::OwnCommand(const std::vector<std::string>& arguments, const Options& options) {
  Pipe output, errors;
  const Descriptor input = file_of(options.standard_input);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.number, STDIN_FILENO);
  if (options.keep_output)
    posix_spawn_file_actions_adddup2(&actions, output.to.number, STDOUT_FILENO);
  else  // what it prints belongs to nobody who started a window
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors.to.number, STDERR_FILENO);
  Argv argv(arguments);
  const Interruptible interruptible;
  const int started = ::posix_spawn(&child_, options.program.c_str(), &actions,
                                    &interruptible.attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (started != 0) throw refusal(started);
  output_ = output.from.take();
  errors_ = errors.from.take();
}

OwnCommand::~OwnCommand() {
  if (!ended_) {
    interrupt();
    reap(false);
  }
  ::close(output_);
  ::close(errors_);
}

std::vector<std::string> OwnCommand::poll() {
  // First: what it said before it ended is there then.
  if (!ended_) reap(false);
  read_what_is_there(output_, line_);
  read_what_is_there(errors_, said_);
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(line_.substr(begin, end - begin));
  line_.erase(0, begin);
  return lines;
}

void OwnCommand::finish(const CancelToken& cancel) {
  bool interrupted = false;
  pollfd both[2] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
  while (!ended_) {
    // Once: the second time it would not end in order.
    if (cancel.cancelled() && !std::exchange(interrupted, true)) interrupt();
    ::poll(both, 2, 100);
    poll();
    // What is closed would wake the next wait at once.
    for (pollfd& one : both)
      if ((one.revents & POLLHUP) != 0) one.fd = -1;
    if (!ended_ && both[0].fd < 0 && both[1].fd < 0) reap(true);
  }
  poll();
}

void OwnCommand::reap(bool wait) {
  const pid_t reaped = ::waitpid(child_, &status_, wait ? 0 : WNOHANG);
  ended_ = reaped == child_ || (reaped < 0 && errno == ECHILD);
}

void OwnCommand::interrupt() {
  if (!ended_) ::kill(child_, SIGINT);
}

void OwnCommand::kill() {
  if (!ended_) ::kill(child_, SIGKILL);
}

int OwnCommand::exit_code() const { return exit_code_of(status_); }

std::string OwnCommand::problem() const {
  if (exit_code() == 0) return {};
  const std::string line = last_line();
  return line.empty() ? "error: the command ended without a message" : line;
}

std::string OwnCommand::last_line() const {
  std::string_view text = said_;
  if (!ended_) text = text.substr(0, text.rfind('\n') + 1);  // npos + 1 is 0
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

std::vector<std::string> OwnCommand::warnings() const {
  std::vector<std::string> found;
  std::istringstream lines(said_);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("warning: ")) found.push_back(line);
  return found;
}

std::string run_self(const std::vector<std::string>& arguments, const CancelToken& cancel) {
  OwnCommand command(arguments, {kOwnProgram, "", false});
  command.finish(cancel);
  cancel.throw_if_cancelled();
  return command.problem();
}

int run_self_here(const std::vector<std::string>& arguments, const CancelToken& cancel) {
  Argv argv(arguments);
  const Interruptible interruptible;
  pid_t child = 0;
  const int started =
      ::posix_spawn(&child, kOwnProgram, nullptr, &interruptible.attributes, argv.data(), environ);
  if (started != 0) throw refusal(started);
  bool interrupted = false;
  int status = 0;
  pid_t reaped = 0;
  while (reaped == 0 || (reaped < 0 && errno == EINTR)) {
    if (cancel.cancelled() && !std::exchange(interrupted, true)) ::kill(child, SIGINT);
    reaped = ::waitpid(child, &status, WNOHANG);
    if (reaped == 0) ::poll(nullptr, 0, 20);
  }
  return exit_code_of(status);
}

}  // namespace kvloupe
