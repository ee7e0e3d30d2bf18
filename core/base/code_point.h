// UTF-8 read character by character, also where bytes are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvloupe {

struct CodePoint {
  std::int32_t number = -1;  // -1: the byte begins none
  std::size_t bytes = 1;
};
// `text` is not empty.
CodePoint first_code_point(std::string_view text);

// each(code point, its bytes).
template <typename F>
void for_each_code_point(std::string_view text, const F& each) {
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    each(first.number, text.substr(0, first.bytes));
    text.remove_prefix(first.bytes);
  }
}

}  // namespace kvloupe
