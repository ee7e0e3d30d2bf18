#include "capture/text/prompt.h"

#include "capture/text/rendered_chat.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace kvloupe::capture {
namespace {

// The tokens that hold at least one byte of the span, whose bytes count from `offset` of the
// encoded text; `first_token` is the position of the encoding's first token. An empty piece has no
// tokens.
trace::TokenSpan token_span(const TextSpan& span, std::size_t offset, const Encoding& encoding,
                            std::int32_t first_token) {
  KVLOUPE_CHECK(span.begin <= span.end);
  // Token i holds bytes [begins[i], begins[i + 1]).
  const auto& begins = encoding.begins;
  const auto after = std::upper_bound(begins.begin(), begins.end(), offset + span.begin);
  const auto last = std::lower_bound(begins.begin(), begins.end(), offset + span.end);
  const auto begin = static_cast<std::int32_t>(after - begins.begin()) - (after != begins.begin());
  const auto end = static_cast<std::int32_t>(last - begins.begin());
  const bool empty = span.begin == span.end;
  return {span.name, first_token + begin, first_token + (empty ? begin : std::max(begin, end))};
}

void check_role(const std::string& role) {
  if (role == "system" || role == "user" || role == "assistant") return;
  throw input_error("cannot build the prompt from the messages",
                    fmt::format("the role \"{}\" is unknown", role),
                    "use the roles system, user and assistant");
}

// The span as bytes of the rendered whole. What the template trims away has no tokens.
TextSpan in_whole(const TextSpan& span, const std::optional<PlacedContent>& content) {
  if (!content)
    throw input_error("cannot mark the pieces of the prompt",
                      "the model's chat template changes or leaves out the message",
                      "give the prompt as it stands, with --raw");
  const auto moved = [&](std::size_t byte) {
    const std::size_t begin = content->content_begin;
    return content->begin + std::clamp(byte, begin, begin + content->length) - begin;
  };
  return {span.name, moved(span.begin), moved(span.end)};
}

}  // namespace

void begin_text(const Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  const std::int32_t first = tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eos();
  if (first < 0)
    throw input_error("an empty context has no token",
                      "the model's vocabulary has no token that begins or ends a text",
                      "give a context");
  if (ids.empty() || ids.front() != first) ids.insert(ids.begin(), first);
}

Prompt raw_prompt(const Tokenizer& tokenizer, std::string_view text,
                  const std::vector<TextSpan>& spans) {
  const Encoding encoding = tokenizer.encode_with_offsets(text, SpecialTokens::Literal);
  Prompt prompt;
  if (tokenizer.adds_bos()) prompt.ids.push_back(tokenizer.bos());
  const auto first = static_cast<std::int32_t>(prompt.ids.size());
  for (const TextSpan& span : spans) {
    KVLOUPE_CHECK(span.end <= text.size());
    prompt.spans.push_back(token_span(span, 0, encoding, first));
  }
  prompt.ids.insert(prompt.ids.end(), encoding.ids.begin(), encoding.ids.end());
  return prompt;
}

Prompt rendered_prompt(const Tokenizer& tokenizer, std::string_view text) {
  Prompt prompt{tokenizer.encode(text, SpecialTokens::Parse), {}};
  const bool has_begin = !prompt.ids.empty() && prompt.ids.front() == tokenizer.bos();
  if (tokenizer.adds_bos() && !has_begin) prompt.ids.insert(prompt.ids.begin(), tokenizer.bos());
  return prompt;
}

Prompt chat_prompt(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                   const std::vector<TextSpan>& spans_of_last_message,
                   std::string_view answer_prefix, TemplateDay day) {
  if (messages.empty()) {
    throw input_error("cannot build the prompt", "there are no messages",
                      "give at least one message with role and content");
  }
  for (const Message& message : messages) check_role(message.role);
  if (tokenizer.chat_template().empty()) {
    throw input_error("cannot wrap the prompt in a chat template",
                      "this model's files have none: it is not made for conversations",
                      "give the prompt as it stands, with --raw");
  }
  const RenderedChat chat = render_chat(tokenizer, messages, day);
  std::vector<TextPart> parts;
  for (const RenderedChat::Piece& piece : chat.pieces) parts.push_back({piece.text, piece.special});
  parts.push_back({answer_prefix, SpecialTokens::Literal});
  Encoding encoding = tokenizer.encode_parts(parts);

  Prompt prompt;
  const auto add_span = [&](const TextSpan& span) {
    prompt.spans.push_back(token_span(span, 0, encoding, 0));
  };
  // The answer's header is the last stretch, the last message's the one before.
  for (std::size_t i = 0; i < chat.roles.size(); ++i) {
    const Stretch& stretch = chat.roles[i];
    const bool answer = i + 1 == chat.roles.size();
    if (i + 2 == chat.roles.size())
      for (const TextSpan& span : spans_of_last_message)
        add_span(in_whole(span, chat.contents.back()));
    if (answer && !answer_prefix.empty())
      add_span({"prefix", chat.size, chat.size + answer_prefix.size()});
    const std::size_t end = answer ? chat.size + answer_prefix.size() : stretch.end;
    const auto tokens = [&](std::size_t byte) {
      return static_cast<std::int32_t>(
          std::lower_bound(encoding.begins.begin(), encoding.begins.end(), byte) -
          encoding.begins.begin());
    };
    const bool last = end == chat.size + answer_prefix.size();
    const trace::TokenSpan role{
        "role:" + stretch.role, tokens(stretch.begin),
        last ? static_cast<std::int32_t>(encoding.ids.size()) : tokens(end)};
    if (role.begin < role.end) prompt.spans.push_back(role);
  }
  prompt.ids = std::move(encoding.ids);
  return prompt;
}

void check_prompt_fits(const std::string& what, std::int64_t tokens, std::int64_t room,
                       const std::string& remedy) {
  if (tokens > room)
    throw input_error(
        fmt::format("{} of {} tokens does not fit", what, format_count(tokens)),
        fmt::format("the model's context leaves room for {} tokens besides those that follow it",
                    format_count(std::max<std::int64_t>(0, room))),
        remedy);
}

}  // namespace kvloupe::capture
