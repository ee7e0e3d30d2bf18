#include "capture/run/own_spans.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/trace/decoded_prompt.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::capture {
namespace {

bool has_name(const std::vector<trace::TokenSpan>& spans, const std::string& name) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const auto& span) { return span.name == name; });
}

}  // namespace

std::vector<NamedText> parse_named_texts(const std::vector<std::string>& arguments) {
  std::vector<NamedText> named;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == argument.size())
      throw usage_error(fmt::format("--span cannot take '{}'", printable(argument)),
                        "it takes a name and the text that it stands for",
                        "write it as in --span answer=\"the text\"");
    NamedText next{argument.substr(0, equals), argument.substr(equals + 1)};
    if (next.name == trace::kDecodedPrompt)
      throw usage_error(fmt::format("--span cannot be called {}", next.name),
                        "the part of a prompt that --decode-from decodes is called so",
                        "give it another name");
    for (const NamedText& before : named)
      if (before.name == next.name)
        throw usage_error(fmt::format("--span names {} twice", printable(next.name)),
                          "a name stands for one text", "give the second another name");
    named.push_back(std::move(next));
  }
  return named;
}

std::vector<trace::TokenSpan> places_of(const Tokenizer& tokenizer, const std::string& text,
                                        const std::vector<std::int32_t>& ids) {
  std::string bytes;
  std::vector<std::size_t> begins;  // of each token
  for (const std::int32_t id : ids) {
    begins.push_back(bytes.size());
    bytes += tokenizer.decode_bytes(id);
  }
  const auto token_at = [&](std::size_t byte) {
    return static_cast<std::int32_t>(std::upper_bound(begins.begin(), begins.end(), byte) -
                                     begins.begin() - 1);
  };
  std::vector<trace::TokenSpan> places;
  for (std::size_t at = bytes.find(text); at != std::string::npos;
       at = bytes.find(text, at + text.size()))
    places.push_back({"", token_at(at), token_at(at + text.size() - 1) + 1});
  return places;
}

void add_named_spans(const Tokenizer& tokenizer, const std::vector<NamedText>& named,
                     const std::vector<std::int32_t>& ids, std::vector<trace::TokenSpan>& spans) {
  for (const NamedText& wanted : named) {
    if (has_name(spans, wanted.name))
      throw input_error(fmt::format("--span {} cannot be added", printable(wanted.name)),
                        "the prompt has a span of that name", "give it another name");
    int count = 0;
    for (const trace::TokenSpan& place : places_of(tokenizer, wanted.text, ids)) {
      ++count;
      spans.push_back({count == 1 ? wanted.name : fmt::format("{}.{}", wanted.name, count),
                       place.begin, place.end});
    }
    if (count == 0)
      throw input_error(
          fmt::format("--span {} marks nothing", printable(wanted.name)),
          fmt::format("the prompt does not hold the text '{}'", printable(wanted.text)),
          "write it as it stands in the prompt, white space and letter case included");
  }
}

}  // namespace kvloupe::capture
