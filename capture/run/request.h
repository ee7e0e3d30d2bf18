// What `kvloupe run` is asked, a line of JSON each: a text to go on with, or how likely a text is after another.
#pragma once

#include "capture/text/prompt.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvloupe::capture {

// A generation has one of prompt, tokens and messages; a likelihood has context and continuation.
struct Request {
  std::optional<std::string> prompt;
  std::vector<std::int32_t> tokens;
  std::vector<Message> messages;
  std::optional<std::string> context;
  std::string continuation;
  bool raw = false;                // of prompt: no chat template
  bool special = false;            // of a raw prompt or a likelihood: its special tokens are tokens
  bool tokenize = false;           // nothing is run: the answer is the prompt as the model reads it
  std::vector<std::string> until;  // the answer ends before the first of them
  int max_new_tokens = 256;
  // Nothing: all of the prompt is prefilled. Else a position, or a span's name or a text, where
  // decoding begins.
  std::variant<std::monostate, std::int64_t, std::string> decode_from;
};

// A line as it was read. `id` is JSON, "null" where the line has none; `error` says what is wrong with the line where it
// has no request.
struct RequestLine {
  std::string id = "null";
  std::optional<Request> request;
  std::string error;
};
RequestLine read_request(std::string_view line);

// The tokens that the model reads.
struct RequestPrompt {
  Prompt prompt;
  std::vector<std::int32_t>
      continuation;            // of a likelihood; `prompt` ends with all but the last of them
  std::int32_t prefilled = 0;  // tokens of the prompt; the rest is decoded

  // Positions of the prompt after which the continuation's tokens come: from here to its end.
  std::int64_t first_scored() const {
    return static_cast<std::int64_t>(prompt.ids.size() - continuation.size());
  }
};
// A likelihood's tokens are those of both texts together, without a chat template; the context's trailing white space
// counts as the continuation's, and an empty context is the model's begin (or end) token. Where special tokens are tokens,
// a text that has its begin token gets no second one. Throws Error{Input} where the
// request does not suit the model's tokenizer.
RequestPrompt prompt_of(const Request& request, const Tokenizer& tokenizer);

// The answer before the first of the request's stop texts.
std::string before_stop(std::string text, const std::vector<std::string>& until);

}  // namespace kvloupe::capture
