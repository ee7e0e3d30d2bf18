// ChatML by hand: the markers are control tokens, so the text between them is encoded on its own
// and gives the same tokens as the rendered prompt as a whole.
#include "capture/text/prompt.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::string_view kDefaultSystemMessage =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

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

class ChatBuilder {
 public:
  explicit ChatBuilder(const Tokenizer& tokenizer)
      : tokenizer_(&tokenizer),
        start_(tokenizer.special_id("<|im_start|>")),
        end_(tokenizer.special_id("<|im_end|>")) {
    if (start_ < 0 || end_ < 0) {
      throw input_error("cannot wrap the prompt in a chat template",
                        "this model's vocabulary lacks <|im_start|> and <|im_end|>",
                        "give the prompt as it stands, with --raw");
    }
  }

  // The header and text of one message: "<|im_start|>role\ntext". Spans are bytes of `text`.
  void open(const std::string& role, std::string_view text, const std::vector<TextSpan>& spans) {
    role_begin_ = position();
    role_ = role;
    prompt_.ids.push_back(start_);
    const std::string header = role + "\n";
    const Encoding encoding =
        tokenizer_->encode_with_offsets(header + std::string(text), SpecialTokens::Literal);
    for (const TextSpan& span : spans) {
      KVLOUPE_CHECK(span.end <= text.size());
      prompt_.spans.push_back(token_span(span, header.size(), encoding, position()));
    }
    prompt_.ids.insert(prompt_.ids.end(), encoding.ids.begin(), encoding.ids.end());
  }

  // "<|im_end|>\n"
  void close() {
    prompt_.ids.push_back(end_);
    const auto newline = tokenizer_->encode("\n", SpecialTokens::Literal);
    prompt_.ids.insert(prompt_.ids.end(), newline.begin(), newline.end());
    end_role();
  }

  void end_role() { prompt_.spans.push_back({"role:" + role_, role_begin_, position()}); }

  Prompt take() { return std::move(prompt_); }

 private:
  std::int32_t position() const { return static_cast<std::int32_t>(prompt_.ids.size()); }

  const Tokenizer* tokenizer_;
  std::int32_t start_;
  std::int32_t end_;
  std::int32_t role_begin_ = 0;
  std::string role_;
  Prompt prompt_;
};

void check_role(const std::string& role) {
  if (role == "system" || role == "user" || role == "assistant") return;
  throw input_error("cannot build the prompt from the messages",
                    fmt::format("the role \"{}\" is unknown", role),
                    "use the roles system, user and assistant");
}

}  // namespace

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

Prompt chat_prompt(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                   const std::vector<TextSpan>& spans_of_last_message,
                   std::string_view answer_prefix) {
  if (messages.empty()) {
    throw input_error("cannot build the prompt", "there are no messages",
                      "give at least one message with role and content");
  }
  for (const Message& message : messages) check_role(message.role);

  ChatBuilder builder(tokenizer);
  if (messages.front().role != "system") {
    builder.open("system", kDefaultSystemMessage, {});
    builder.close();
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool last = i + 1 == messages.size();
    builder.open(messages[i].role, messages[i].content,
                 last ? spans_of_last_message : std::vector<TextSpan>{});
    builder.close();
  }
  std::vector<TextSpan> prefix_span;
  if (!answer_prefix.empty()) prefix_span.push_back({"prefix", 0, answer_prefix.size()});
  builder.open("assistant", answer_prefix, prefix_span);
  builder.end_role();
  return builder.take();
}

}  // namespace kvloupe::capture
