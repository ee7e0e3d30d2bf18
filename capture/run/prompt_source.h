// Where a capture's prompt comes from: the command line, a file, standard input, messages or a
// task.
#pragma once

#include "capture/run/capture.h"
#include "capture/tasks/task.h"
#include "capture/text/prompt.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

// One of the four is filled. Nothing here depends on a model.
struct PromptSource {
  std::string text;
  bool special = false;      // in a raw text special tokens are tokens
  bool begin_token = false;  // a raw text comes after the token that begins one
  std::vector<Message> messages;
  std::optional<TaskSpec> task;
  std::optional<TaskPrompt> tokens;
};

// A JSON list of {role, content}. Throws Error{Input} for anything else.
std::vector<Message> parse_messages(const std::string& content);

// Reads and checks what the options name. Throws Error{Usage} for options that contradict each
// other and Error{Input} for a file that cannot be used; both before any model is loaded.
PromptSource read_prompt_source(const CaptureOptions& options);

// The tokens to feed. Throws Error{Input} where there are no tokens, or more than
// request.max_prompt_tokens.
TaskPrompt make_prompt(const PromptSource& source, const TaskRequest& request);

}  // namespace kvloupe::capture
