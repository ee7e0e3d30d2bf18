// The engine runs in kvloupe_render (render_main.cpp), which is started here, fed and watched.
#include "capture/text/chat_template.h"

#include "capture/text/template_messages.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxSourceBytes = 1 << 20;
constexpr std::size_t kMaxRenderedBytes = std::size_t{256} << 20;
constexpr std::chrono::seconds kMaxTime{
    15};  // more than the processor time that the renderer allows itself
constexpr std::size_t kMaxShown = 200;

Error unusable_template(const std::string& why) {
  return input_error("cannot build the prompt from the model's chat template", why,
                     "change the messages or give the prompt as it stands, with --raw");
}

Error cannot_start(const std::string& why) {
  return input_error("cannot render the model's chat template", why,
                     "build the program again or give the prompt as it stands, with --raw");
}

// Beside the program; tests stand in a folder beside that.
fs::path renderer() {
  std::error_code code;
  const fs::path here = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (const fs::path& folder : {here, here.parent_path() / "bin"})
    if (const fs::path path = folder / "kvloupe_render"; fs::exists(path, code)) return path;
  throw cannot_start("kvloupe_render is not beside the program");
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Standard input and output of the renderer are one socket. Without a fork: this process may hold the weights of a model.
pid_t start(const fs::path& program, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  // A report of its end, by a sanitizer or the C library, is no message of the program.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program.string();
  std::array<char*, 2> arguments = {name.data(), nullptr};
  pid_t child = -1;
  const int code = posix_spawn(&child, name.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw cannot_start(std::strerror(code));
  return child;
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // the process has ended: its answer, or the lack of one, says why
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  shutdown(socket, SHUT_WR);
}

// Until the renderer closes its end. Returns why it is to be ended before.
std::optional<std::string> receive(int socket, std::string& answer) {
  const auto deadline = Clock::now() + kMaxTime;
  std::array<char, 1 << 16> piece;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{socket, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "the template does not come to an end";
    const ssize_t count = read(socket, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    answer.append(piece.data(), static_cast<std::size_t>(count));
    if (answer.size() > kMaxRenderedBytes) return "what the template writes grows without bound";
  }
}

std::string run_renderer(const std::string& request) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw cannot_start(std::strerror(errno));
  const Descriptor ours(ends[0]);
  pid_t child = -1;
  {
    const Descriptor its(ends[1]);
    child = start(renderer(), its.number());
  }
  send_all(ours.number(), request);
  std::string answer;
  const auto why = receive(ours.number(), answer);
  if (why) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (why) throw unusable_template(*why);
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
    throw unusable_template("the template does not come to an end");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw unusable_template("the template takes too much memory or nests too deeply");
  return answer;
}

// The engine's messages show the source over several lines; the reason stands last.
std::string reason_of(std::string message) {
  if (const auto at = message.rfind("Error: "); at != message.npos) message.erase(0, at + 7);
  if (message.size() > kMaxShown) message = message.substr(0, kMaxShown) + "...";
  for (char& c : message)
    if (c == '\n') c = ' ';
  return printable(message);
}

}  // namespace

std::vector<RenderedPart> render_chat_template(const std::string& source,
                                               const TemplateInput& input) {
  if (source.size() > kMaxSourceBytes)
    throw unusable_template(fmt::format("the template has {}", format_bytes(source.size())));
  std::string request;
  put_string(request, source);
  put_string(request, input.bos);
  put_string(request, input.eos);
  put_string(request, input.add_generation_prompt ? "1" : "0");
  put_string(request, input.day == TemplateDay::Fixed ? "1" : "0");
  for (const Message& message : input.messages) {
    put_string(request, message.role);
    put_string(request, message.content);
  }
  const std::string bytes = run_renderer(request);
  std::string_view answer = bytes;
  const auto kind = take_string(answer);
  if (kind == kFailed) throw unusable_template(reason_of(take_string(answer).value_or("")));
  if (kind != kRendered)
    throw unusable_template("the template takes too much memory or nests too deeply");
  std::vector<RenderedPart> parts;
  while (const auto is_content = take_string(answer)) {
    auto text = take_string(answer);
    if (text) parts.push_back({*is_content == "1", std::move(*text)});
  }
  return parts;
}

}  // namespace kvloupe::capture
