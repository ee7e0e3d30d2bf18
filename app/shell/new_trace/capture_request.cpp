#include "app/shell/new_trace/capture_request.h"

#include "app/state/shell_words.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;

// Linux takes 128 KiB in one word.
constexpr std::size_t kMostInAWord = 100'000;

bool by_input(const CaptureRequest& request) {
  return request.kind == PromptKind::Chat ||
         (request.kind == PromptKind::Text && request.text.size() > kMostInAWord);
}

// A value that begins as an option does is tied to its own.
void add(std::vector<std::string>& words, const std::string& option, const std::string& value) {
  if (value.starts_with('-') && value != "-")
    words.push_back(option + "=" + value);
  else
    words.insert(words.end(), {option, value});
}

void add_prompt(std::vector<std::string>& words, const CaptureRequest& request) {
  switch (request.kind) {
    case PromptKind::Text:
      if (by_input(request)) return add(words, "--prompt-file", "-");
      return add(words, "--prompt", request.text);
    case PromptKind::TextFile: return add(words, "--prompt-file", request.file);
    case PromptKind::Chat: return add(words, "--messages", "-");
    case PromptKind::ChatFile: return add(words, "--messages", request.file);
    case PromptKind::Task: return add(words, "--task", request.task);
  }
}

std::string problem_of_prompt(const CaptureRequest& request) {
  switch (request.kind) {
    case PromptKind::Text:
      return request.text.empty() ? "There is no prompt yet: type one, or drop a text file." : "";
    case PromptKind::TextFile:
      return request.file.empty() ? "There is no text file yet: drop one, or choose it." : "";
    case PromptKind::ChatFile:
      return request.file.empty()
                 ? "There is no file of messages yet: drop a .json file, or choose it."
                 : "";
    case PromptKind::Chat:
      if (request.chat.empty()) return "The chat has no message yet.";
      for (std::size_t i = 0; i < request.chat.size(); ++i)
        if (request.chat[i].content.empty())
          return fmt::format("Message {} of the chat is empty.", i + 1);
      return "";
    case PromptKind::Task: return request.task.empty() ? "No task is chosen yet." : "";
  }
  return "";
}

std::string problem_of_spec(const std::string& spec) {
  try {
    selection::MethodSpec::parse(spec);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string problem_of_spans(const CaptureRequest& request) {
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    const CaptureSpan& span = request.spans[i];
    if (span.name.empty()) return fmt::format("Span {} has no name.", i + 1);
    if (span.name.find('=') != std::string::npos)
      return fmt::format("The name of a span cannot hold '=': {}.", span.name);
    for (std::size_t j = 0; j < i; ++j)
      if (request.spans[j].name == span.name)
        return fmt::format("Two spans are called {}.", span.name);
    const bool typed = request.kind == PromptKind::Text || request.kind == PromptKind::Chat;
    if (typed && occurrences(request, span.text) == 0)
      return fmt::format("The text of the span {} no longer stands in the prompt.", span.name);
  }
  return "";
}

// "3-5", both ends in, or "3".
bool is_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_int(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_int(text.substr(dash + 1));
  return first && last && *first >= 0 && *last >= *first;
}

// As --layers reads it.
std::string problem_of_layers(const std::string& layers) {
  if (layers.empty() || layers == "all") return "";
  for (std::size_t begin = 0; begin <= layers.size();) {
    const std::size_t end = std::min(layers.find(',', begin), layers.size());
    if (!is_range(std::string_view(layers).substr(begin, end - begin)))
      return "Layers are written as 0-5, as 0-2,7 or as all; 3 is one.";
    begin = end + 1;
  }
  return "";
}

std::string json_of(const std::vector<ChatMessage>& chat) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : chat)
    json.push_back({{"role", message.role}, {"content", message.content}});
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::string> capture_arguments(const CaptureRequest& request) {
  std::vector<std::string> words{"capture"};
  const auto add = [&](const char* option, const std::string& value) {
    shell::add(words, option, value);
  };
  add("--model", request.model);
  add_prompt(words, request);
  if (request.raw) words.emplace_back("--raw");
  if (request.raw && request.special && request.kind == PromptKind::Text)
    words.emplace_back("--special");
  for (const CaptureSpan& span : request.spans) add("--span", span.name + "=" + span.text);
  if (request.chunk_size != CaptureRequest{}.chunk_size)
    add("--chunk-size", std::to_string(request.chunk_size));
  if (!request.layers.empty()) add("--layers", request.layers);
  for (const std::string& method : request.methods) add("--method", method);
  if (!request.closed_loop.empty()) add("--closed-loop", request.closed_loop);
  if (request.drift) words.emplace_back("--drift");
  if (request.max_new_tokens > 0) add("--max-new-tokens", std::to_string(request.max_new_tokens));
  if (request.device != CaptureRequest{}.device) add("--device", request.device);
  if (request.force) words.emplace_back("--force");
  add("--output", request.output);
  return words;
}

std::string capture_input(const CaptureRequest& request) {
  if (!by_input(request)) return {};
  return request.kind == PromptKind::Chat ? json_of(request.chat) : request.text;
}

std::string capture_command_text(const CaptureRequest& request) {
  const std::string line = state::shell_line(capture_arguments(request));
  if (!by_input(request)) return line;
  return fmt::format("printf %s {} | {}", state::shell_word(capture_input(request)), line);
}

std::string problem_of(const CaptureRequest& request) {
  if (request.model.empty())
    return "No model is chosen yet: take one of the list, or drop a .gguf file or a Hugging Face "
           "folder.";
  for (const auto& problem :
       {problem_of_prompt(request), problem_of_spans(request), problem_of_layers(request.layers)})
    if (!problem.empty()) return problem;
  for (const std::string& method : request.methods)
    if (std::string problem = problem_of_spec(method); !problem.empty()) return problem;
  if (!request.closed_loop.empty())
    if (std::string problem = problem_of_spec(request.closed_loop); !problem.empty())
      return problem;
  if (request.drift && request.closed_loop.empty())
    return "Drift is how far a closed loop is from the dense model: choose a method for the closed "
           "loop, or leave drift out.";
  if (request.output.empty()) return "The trace has no file yet: name one.";
  return "";
}

int occurrences(const CaptureRequest& request, const std::string& text) {
  if (text.empty()) return 0;
  int count = 0;
  const auto add = [&](const std::string& of) {
    for (std::size_t at = of.find(text); at != std::string::npos;
         at = of.find(text, at + text.size()))
      ++count;
  };
  if (request.kind == PromptKind::Text) add(request.text);
  if (request.kind == PromptKind::Chat)
    for (const ChatMessage& message : request.chat) add(message.content);
  return count;
}

std::string model_of_path(const std::string& path) {
  std::error_code ignored;
  const fs::path name(path);
  if (fs::is_directory(name, ignored))
    return fs::exists(name / "config.json", ignored) ? path : std::string();
  if (name.filename() == "config.json") return name.parent_path().string();
  return name.extension() == ".gguf" ? path : std::string();
}

std::string part_of(const std::string& output) {
  try {
    return trace::part_path(output_target(output)).string();
  } catch (const Error&) {  // a link in a circle, of which the capture says what is wrong
    return trace::part_path(output).string();
  }
}

std::string unused_output(const std::string& folder) {
  std::error_code ignored;
  const fs::path place = folder.empty() ? fs::current_path(ignored) : fs::path(folder);
  const auto taken = [&](const fs::path& path) {
    return fs::exists(path, ignored) || fs::exists(path.string() + ".part", ignored);
  };
  fs::path path = place / "capture.h5";
  for (int i = 2; i < 10000 && taken(path); ++i) path = place / fmt::format("capture-{}.h5", i);
  return path.string();
}

}  // namespace kvloupe::shell
