// A rendered conversation whose parts are known: what is a message's own text, and which stretch belongs to whom.
#pragma once

#include "capture/text/chat_template.h"
#include "capture/text/tokenizer.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

// Where a message's text stands in the whole.
struct PlacedContent {
  std::size_t begin = 0;          // byte of the whole
  std::size_t content_begin = 0;  // byte of the message: templates may trim it
  std::size_t length = 0;
};

struct Stretch {
  std::string role;
  std::size_t begin = 0, end = 0;  // bytes of the whole
};

struct RenderedChat {
  // The whole in pieces: those that hold markers of the template, and those that are text.
  struct Piece {
    std::string text;
    SpecialTokens special = SpecialTokens::Literal;
  };
  std::vector<Piece> pieces;
  std::size_t size = 0;  // bytes of the whole
  std::vector<std::optional<PlacedContent>>
      contents;  // by message; nullopt: empty, left out or changed
  // Tile the whole, one a message and one for the answer's header where there is one; a system message that the
  // template adds comes first.
  std::vector<Stretch> roles;
};

// `messages` is not empty. Throws Error{Input} as render_chat_template.
RenderedChat render_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                         TemplateDay day);

}  // namespace kvloupe::capture
