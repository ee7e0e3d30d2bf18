// Letters of ASCII; all other bytes stay as they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvloupe {

// Without these letters at its ends.
inline std::string_view trimmed(std::string_view text, std::string_view letters = " \t\r\n") {
  const std::size_t first = text.find_first_not_of(letters);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(letters) - first + 1);
}

inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// With a large first letter.
inline std::string capitalised(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

}  // namespace kvloupe
