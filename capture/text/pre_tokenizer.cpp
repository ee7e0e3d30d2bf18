// A scanner by hand: standard regular expressions know neither Unicode classes nor this speed.
#include "capture/text/pre_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvloupe::capture {
namespace {

enum class CharClass : std::uint8_t { Letter, Number, Space, Symbol };

struct Character {
  CharClass char_class = CharClass::Symbol;
  std::size_t bytes = 1;
};

// The Unicode property White_Space, which \s means; it is not a general category.
bool is_space(utf8proc_int32_t code) {
  return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

CharClass class_of(utf8proc_int32_t code) {
  if (is_space(code)) return CharClass::Space;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::Letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::Number;
    default:
      return CharClass::Symbol;
  }
}

Character character_at(std::string_view text, std::size_t pos) {
  static const std::array<CharClass, 128> ascii_classes = [] {
    std::array<CharClass, 128> classes{};
    for (std::size_t code = 0; code < classes.size(); ++code) {
      classes[code] = class_of(static_cast<utf8proc_int32_t>(code));
    }
    return classes;
  }();
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < ascii_classes.size()) return {ascii_classes[first], 1};
  utf8proc_int32_t code = 0;
  const auto available = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size() - pos, 4));
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + pos),
                                      available, &code);
  if (bytes <= 0) return {CharClass::Symbol, 1};
  return {class_of(code), static_cast<std::size_t>(bytes)};
}

std::size_t contraction_bytes(std::string_view rest) {
  for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (rest.substr(0, suffix.size()) == suffix) return suffix.size();
  }
  return 0;
}

// End of the run of `char_class` that holds the character at `pos`.
std::size_t run_end(std::string_view text, std::size_t pos, CharClass char_class) {
  while (pos < text.size()) {
    const Character c = character_at(text, pos);
    if (c.char_class != char_class) break;
    pos += c.bytes;
  }
  return pos;
}

// A run of white space gives its last character to a word or symbol that follows.
std::size_t space_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  std::size_t last = begin;
  while (end < text.size()) {
    const Character c = character_at(text, end);
    if (c.char_class != CharClass::Space) {
      return c.char_class == CharClass::Number || last == begin ? end : last;
    }
    last = end;
    end += c.bytes;
  }
  return end;
}

std::size_t piece_end(std::string_view text, std::size_t pos) {
  const Character first = character_at(text, pos);
  if (first.char_class == CharClass::Number) return pos + first.bytes;
  if (text[pos] == '\'') {
    if (const auto bytes = contraction_bytes(text.substr(pos)); bytes != 0) return pos + bytes;
  }
  if (text[pos] == ' ' && pos + 1 < text.size()) {
    const auto next = character_at(text, pos + 1).char_class;
    if (next == CharClass::Letter || next == CharClass::Symbol) return run_end(text, pos + 1, next);
  }
  if (first.char_class == CharClass::Space) return space_end(text, pos);
  return run_end(text, pos, first.char_class);
}

}  // namespace

std::vector<std::string_view> pre_tokenise_smollm(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t end = piece_end(text, pos);
    pieces.push_back(text.substr(pos, end - pos));
    pos = end;
  }
  return pieces;
}

}  // namespace kvloupe::capture
