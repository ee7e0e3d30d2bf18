// Reading and checking of prompts.
#include "capture/run/prompt_source.h"

#include "capture/text/parse_json.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace kvloupe::capture {
namespace {

constexpr const char* kMessageForm =
    R"(write a list such as [{"role": "user", "content": "Hello"}])";

// Beyond any model's context: what is longer, or has no end, is no prompt.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

std::string read_stream(std::istream& stream, const std::string& name) {
  std::string content;
  std::array<char, 1 << 16> piece;
  while (stream && content.size() <= kMostBytes) {
    stream.read(piece.data(), piece.size());
    content.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (content.size() > kMostBytes) {
    throw input_error("cannot read the prompt",
                      fmt::format("{} has more than {}", name, format_bytes(kMostBytes)),
                      "give a shorter text");
  }
  return content;
}

std::string read_all(const std::filesystem::path& path) {
  if (path == "-") return read_stream(std::cin, "standard input");
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw input_error("cannot read the prompt", path.string() + " is a folder", "name a file");
  }
  std::ifstream stream(path, std::ios::binary);
  std::string content = read_stream(stream, path.string());
  if (!stream.is_open() || stream.bad()) {
    throw input_error("cannot read the prompt", path.string() + " cannot be opened",
                      "check the name and your right to read it");
  }
  return content;
}

std::string string_member(const nlohmann::json& message, const char* name, std::size_t index) {
  if (!message.is_object() || !message.contains(name) || !message[name].is_string()) {
    throw input_error("the messages are not usable",
                      fmt::format("message {} has no text \"{}\"", index, name), kMessageForm);
  }
  return message[name].get<std::string>();
}

}  // namespace

std::vector<Message> parse_messages(const std::string& content) {
  const nlohmann::json json = parse_json(content);
  if (json.is_discarded()) {
    throw input_error("the messages are not usable", "they are not JSON, or nest without end",
                      kMessageForm);
  }
  if (!json.is_array() || json.empty()) {
    throw input_error("the messages are not usable", "they are no list", kMessageForm);
  }
  std::vector<Message> messages;
  for (std::size_t i = 0; i < json.size(); ++i) {
    messages.push_back({string_member(json[i], "role", i), string_member(json[i], "content", i)});
    const std::string& role = messages.back().role;
    if (role != "system" && role != "user" && role != "assistant") {
      throw input_error("the messages are not usable",
                        fmt::format("message {} has the role '{}'", i, role),
                        "use the roles system, user and assistant");
    }
  }
  return messages;
}

namespace {

[[noreturn]] void fail_empty(const std::string& what) {
  throw input_error("the prompt is empty", what + " holds no text", "give at least one word");
}

}  // namespace

PromptSource read_prompt_source(const CaptureOptions& options) {
  const int given = int(options.prompt_text.has_value()) + int(options.prompt_file.has_value()) +
                    int(options.messages_file.has_value()) + int(options.task.has_value());
  const bool goes_on = options.tokens && given == 0;
  if (given != 1 && !goes_on) {
    throw usage_error("a capture needs one prompt",
                      given == 0 ? "none was given" : "more than one was given",
                      "give one of --prompt, --prompt-file, --messages and --task");
  }
  if (options.special && (!options.raw || options.task))
    throw usage_error("--special needs --raw and a text",
                      "the chat template and tasks have their special tokens as tokens",
                      "give --raw with --prompt or --prompt-file, or leave --special away");
  if (options.begin_token && (!options.raw || options.task))
    throw usage_error("--begin-token needs --raw and a text",
                      "the chat template and tasks begin as the model was trained to read them",
                      "give --raw with --prompt or --prompt-file, or leave --begin-token away");
  PromptSource source;
  source.special = options.special;
  source.begin_token = options.begin_token;
  if (goes_on) {
    source.tokens = options.tokens;
  } else if (options.prompt_text) {
    source.text = *options.prompt_text;
    if (source.text.empty()) {
      throw usage_error("--prompt is empty", "there is nothing to run the model on",
                        "give at least one word");
    }
  } else if (options.prompt_file) {
    source.text = read_all(*options.prompt_file);
    if (source.text.empty()) fail_empty(options.prompt_file->string());
  } else if (options.messages_file) {
    if (options.raw) {
      throw usage_error("--raw does not go with --messages",
                        "messages are put together by the model's chat template",
                        "leave --raw away or give the text by --prompt-file");
    }
    source.messages = parse_messages(read_all(*options.messages_file));
  } else {
    source.task = TaskSpec::parse(*options.task);
  }
  return source;
}

TaskPrompt make_prompt(const PromptSource& source, const TaskRequest& request) {
  if (source.tokens) return *source.tokens;
  if (source.task) return source.task->info().build(*source.task, request);
  TaskPrompt result;
  if (!source.messages.empty()) {
    result.prompt = chat_prompt(request.tokenizer, source.messages, {}, "");
  } else if (source.special) {
    result.prompt = rendered_prompt(request.tokenizer, source.text);
  } else if (request.raw) {
    result.prompt = raw_prompt(request.tokenizer, source.text);
  } else {
    result.prompt = chat_prompt(request.tokenizer, {{"user", source.text}}, {}, "");
  }
  if (source.begin_token) begin_text(request.tokenizer, result.prompt.ids);
  const auto tokens = static_cast<std::int64_t>(result.prompt.ids.size());
  if (tokens == 0) fail_empty("the text");
  check_prompt_fits("the prompt", tokens, request.max_prompt_tokens,
                    "shorten the prompt or ask for fewer new tokens");
  return result;
}

}  // namespace kvloupe::capture
