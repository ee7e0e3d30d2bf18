// Spans that the user names by their text (`capture --span NAME=TEXT`).
#pragma once

#include "capture/text/tokenizer.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct NamedText {
  std::string name, text;
};

// "NAME=TEXT", both with something in them. Throws Error{Usage}; so do two of one name, and the
// name that the program gives to a decoded prompt.
std::vector<NamedText> parse_named_texts(const std::vector<std::string>& arguments);

// The tokens that hold at least one byte of the text, one span for each place where it stands in the prompt, without
// names.
std::vector<trace::TokenSpan> places_of(const Tokenizer& tokenizer, const std::string& text,
                                        const std::vector<std::int32_t>& ids);

// Spans of these places, wherever it stands in the prompt: NAME, then
// NAME.2, NAME.3 and so on. Throws Error{Input} where it stands nowhere, and where the prompt has a
// span of that name.
void add_named_spans(const Tokenizer& tokenizer, const std::vector<NamedText>& named,
                     const std::vector<std::int32_t>& ids, std::vector<trace::TokenSpan>& spans);

}  // namespace kvloupe::capture
