// From text, messages or a task to the tokens that a model is fed, with spans for their parts.
#pragma once

#include "capture/text/chat_template.h"
#include "capture/text/tokenizer.h"
#include "core/trace/trace_types.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// A named piece of the user text whose token span is wanted (a needle, the question).
struct TextSpan {
  std::string name;
  std::size_t begin = 0, end = 0;  // bytes of the text
};

struct Prompt {
  std::vector<std::int32_t> ids;
  std::vector<trace::TokenSpan> spans;  // "role:user", "needle", "question", "prefix", ...
};

// Text as it stands (--raw): no template, no special tokens but the begin token of models that want one.
Prompt raw_prompt(const Tokenizer& tokenizer, std::string_view text,
                  const std::vector<TextSpan>& spans = {});
// A text that a chat template has made: special tokens in it are tokens, and a second begin token is not put before one.
Prompt rendered_prompt(const Tokenizer& tokenizer, std::string_view text);
// Puts the token that begins a text first, unless it is there: the one that ends it where the model has none that
// begins. Throws Error{Input} where it has neither.
void begin_text(const Tokenizer& tokenizer, std::vector<std::int32_t>& ids);
// By the model's own chat template; text is never parsed for special tokens. `answer_prefix` follows
// the assistant header. The spans "role:<role>" tile the prompt, one a message with its header and
// end marker; those of the last message's pieces and "prefix" cover every token that holds one of
// their bytes. Throws Error{Input} for an unknown role, a model without a template, one that fails,
// and one that changes the message whose pieces are wanted.
Prompt chat_prompt(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                   const std::vector<TextSpan>& spans_of_last_message,
                   std::string_view answer_prefix, TemplateDay day = TemplateDay::Today);

// Throws Error{Input} where a prompt, called `what`, has more tokens than the model's context has room for.
void check_prompt_fits(const std::string& what, std::int64_t tokens, std::int64_t room,
                       const std::string& remedy);

}  // namespace kvloupe::capture
