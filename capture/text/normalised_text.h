// A text as a tokenizer wants it, that still knows where each of its bytes came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

class NormalisedText {
 public:
  explicit NormalisedText(std::string_view text) : text_(text) {}

  // Unicode's NFC; bytes that are not UTF-8 stay.
  void compose();
  // U+FFFD for each byte that is not part of a character in UTF-8.
  void replace_invalid();
  void prefix_space();

  const std::string& text() const { return text_; }
  // The byte of the original text at which the character of this byte began.
  std::size_t source(std::size_t byte) const { return sources_.empty() ? byte : sources_[byte]; }
  std::int64_t replaced() const { return replaced_; }

 private:
  class Writer;

  std::string text_;
  std::vector<std::size_t> sources_;  // by byte; empty: nothing has moved
  std::int64_t replaced_ = 0;
};

}  // namespace kvloupe::capture
