// kvloupe_render: renders one chat template by llama.cpp's Jinja engine, from standard input to standard output. A process
// of its own, since a template from a model's file may loop for ever, grow without bound or end the engine.
#include "capture/text/template_messages.h"

#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>

namespace {

using namespace kvloupe::capture;

constexpr rlim_t kSeconds = 10;
constexpr rlim_t kBytes = rlim_t{1} << 30;     // beyond what the program itself maps
constexpr std::time_t kFixedDay = 1721995200;  // noon of 26 July 2024 in UTC

void limit(int resource, rlim_t value) {
  rlimit both{};
  getrlimit(resource, &both);
  both.rlim_cur = both.rlim_max == RLIM_INFINITY || value < both.rlim_max ? value : both.rlim_max;
  setrlimit(resource, &both);
}

void set_limits() {
  unsigned long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  limit(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kBytes);
  limit(RLIMIT_CPU, kSeconds);
  limit(RLIMIT_CORE, 0);
}

std::string read_input() {
  std::string input;
  std::array<char, 1 << 16> piece;
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, piece.data(), piece.size());
    if (count <= 0) return input;
    input.append(piece.data(), static_cast<std::size_t>(count));
  }
}

void write_output(std::string_view output) {
  while (!output.empty()) {
    const ssize_t count = write(STDOUT_FILENO, output.data(), output.size());
    if (count <= 0) return;
    output.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string next(std::string_view& request) {
  auto text = take_string(request);
  if (!text) throw std::runtime_error("the request is cut short");
  return std::move(*text);
}

std::string render(std::string_view request) {
  const std::string source = next(request);
  jinja::context context(source);
  for (const char* name : {"bos_token", "eos_token"})
    context.set_val(name, jinja::mk_val<jinja::value_string>(next(request)));
  context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(next(request) == "1"));
  if (next(request) == "1") {
    setenv("TZ", "UTC0", 1);  // noon is of the next day already east of it
    context.current_time = kFixedDay;
  }
  for (const char* name : {"tools", "documents"})
    context.set_val(name, jinja::mk_val<jinja::value_none>());
  auto messages = jinja::mk_val<jinja::value_array>();
  while (!request.empty()) {
    auto message = jinja::mk_val<jinja::value_object>();
    message->insert("role", jinja::mk_val<jinja::value_string>(next(request)));
    auto content = jinja::mk_val<jinja::value_string>(next(request));
    content->mark_input();
    message->insert("content", content);
    messages->push_back(message);
  }
  context.set_val("messages", messages);

  jinja::lexer lexer;
  const auto program = jinja::parse_from_tokens(lexer.tokenize(source));
  jinja::runtime runtime(context);
  const auto rendered = jinja::runtime::gather_string_parts(runtime.execute(program));
  std::string answer;
  put_string(answer, kRendered);
  for (const auto& part : rendered->val_str.parts) {
    put_string(answer, part.is_input ? "1" : "0");
    put_string(answer, part.val);
  }
  return answer;
}

std::string failed(std::string_view why) {
  std::string answer;
  put_string(answer, kFailed);
  put_string(answer, why);
  return answer;
}

}  // namespace

int main() {
  set_limits();
  std::string answer;
  try {
    answer = render(read_input());
  } catch (const std::bad_alloc&) {
    answer = failed("it takes too much memory");
  } catch (const std::length_error&) {
    answer = failed("it takes too much memory");
  } catch (const std::exception& error) {
    answer = failed(error.what());
  }
  write_output(answer);
  // Without taking apart what a hostile template built.
  _exit(0);
}
