// Token bytes as people read them: valid text as it stands, a part of a character as its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::state {

// For running text: line ends become a visible mark, invalid or unprintable bytes become \xE6.
std::string readable_text(std::string_view bytes);
// For a single token in a table or tooltip: leading and trailing blanks are visible too.
std::string readable_token(std::string_view bytes);
// Whether text may be parted before the token: where a word begins, and before a character of a script that
// is written without blanks.
bool begins_word(std::string_view bytes);
// For names that a file gives (spans, models, methods, files): as printable (core/base/printable.h),
// short enough for a line, never empty, and without "##", after which Dear ImGui shows nothing of a
// label.
std::string readable_name(std::string_view name);
// The code points of all texts that are not in the Latin, Greek or Cyrillic blocks, ascending.
std::vector<char32_t> unusual_code_points(const std::vector<std::string>& texts);
// Token positions whose text, joined with its neighbours', holds `needle` (ASCII case is ignored).
// A match is reported by the tokens that hold it, once for each at which it begins.
struct TokenRange {
  std::int32_t begin = 0, end = 0;  // half-open
  bool operator==(const TokenRange&) const = default;
};
std::vector<TokenRange> find_text(const std::vector<std::string>& tokens, std::string_view needle);

}  // namespace kvloupe::state
