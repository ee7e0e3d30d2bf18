// From a request to the tokens that the model reads.
#include "capture/run/decode_from.h"
#include "capture/run/own_spans.h"
#include "capture/run/request.h"
#include "core/base/error.h"

#include <algorithm>
#include <string_view>

namespace kvloupe::capture {
namespace {

// What Python's str.rstrip() takes away, in UTF-8.
constexpr std::string_view kSpaces[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",
                                        "\x1c",   "\x1d",   "\x1e",   "\x1f",   "\u0085", "\u00a0",
                                        "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                        "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

std::size_t without_trailing_space(std::string_view text) {
  const auto ends = [&](std::string_view space) { return text.ends_with(space); };
  while (true) {
    const auto* space = std::find_if(std::begin(kSpaces), std::end(kSpaces), ends);
    if (space == std::end(kSpaces)) return text.size();
    text.remove_suffix(space->size());
  }
}

Prompt text_prompt(const Request& request, std::string_view text, const Tokenizer& tokenizer) {
  return request.special ? rendered_prompt(tokenizer, text) : raw_prompt(tokenizer, text);
}

Prompt generation_prompt(const Request& request, const Tokenizer& tokenizer) {
  if (!request.tokens.empty()) return {request.tokens, {}};
  if (request.raw) return text_prompt(request, *request.prompt, tokenizer);
  if (tokenizer.chat_template().empty())
    throw input_error("cannot wrap the prompt in a chat template",
                      "this model's files have none: it is not made for conversations",
                      R"(give a prompt with "raw": true)");
  if (request.prompt) return chat_prompt(tokenizer, {{"user", *request.prompt}}, {}, "");
  return chat_prompt(tokenizer, request.messages, {}, "");
}

// As lm-evaluation-harness splits them (TemplateLM._encode_pair).
RequestPrompt likelihood_prompt(const Request& request, const Tokenizer& tokenizer) {
  const std::string whole = *request.context + request.continuation;
  const std::string_view context =
      std::string_view(whole).substr(0, without_trailing_space(*request.context));
  RequestPrompt result;
  std::vector<std::int32_t>& ids = result.prompt.ids;
  std::size_t split = 0;
  if (context.empty()) {
    ids = tokenizer.encode(whole, request.special ? SpecialTokens::Parse : SpecialTokens::Literal);
    begin_text(tokenizer, ids);
    split = 1;
  } else {
    ids = text_prompt(request, whole, tokenizer).ids;
    split = text_prompt(request, context, tokenizer).ids.size();
  }
  if (split >= ids.size() || split == 0)
    throw input_error("the continuation has no tokens of its own",
                      "together with the context it has no more than the context alone",
                      "give a longer continuation");
  result.continuation.assign(ids.begin() + static_cast<std::ptrdiff_t>(split), ids.end());
  ids.pop_back();  // nothing comes after it
  result.prompt.spans.push_back({"continuation", static_cast<std::int32_t>(split),
                                 static_cast<std::int32_t>(ids.size() + 1)});
  return result;
}

// A span of that name, else the last place where the text stands: a question stands at the prompt's end.
std::int32_t prefill_to(const std::string& name, const Tokenizer& tokenizer, Prompt& prompt) {
  const auto span = std::find_if(prompt.spans.begin(), prompt.spans.end(),
                                 [&](const trace::TokenSpan& each) { return each.name == name; });
  if (span == prompt.spans.end()) {
    const std::vector<trace::TokenSpan> places = places_of(tokenizer, name, prompt.ids);
    if (places.empty())
      throw input_error("decode_from marks nothing",
                        "the prompt has neither a span of that name nor that text",
                        "write it as it stands in the prompt, white space included");
    return prefill_tokens("decode_from", std::int64_t{places.back().begin}, prompt);
  }
  // Of a continuation of one token nothing is fed.
  const auto tokens = static_cast<std::int32_t>(prompt.ids.size());
  return span->begin == tokens ? tokens : prefill_tokens("decode_from", name, prompt);
}

}  // namespace

RequestPrompt prompt_of(const Request& request, const Tokenizer& tokenizer) {
  RequestPrompt result;
  if (request.context) {
    result = likelihood_prompt(request, tokenizer);
  } else {
    result.prompt = generation_prompt(request, tokenizer);
  }
  if (result.prompt.ids.empty())
    throw input_error("the prompt is empty", "its text has no tokens", "give at least one word");
  if (const auto* position = std::get_if<std::int64_t>(&request.decode_from)) {
    result.prefilled = prefill_tokens("decode_from", *position, result.prompt);
  } else if (const auto* name = std::get_if<std::string>(&request.decode_from)) {
    result.prefilled = prefill_to(*name, tokenizer, result.prompt);
  } else {
    result.prefilled = static_cast<std::int32_t>(result.prompt.ids.size());
  }
  return result;
}

}  // namespace kvloupe::capture
