// Words of a command line as a shell reads them.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::state {

// Quoted where it must be.
inline std::string shell_word(const std::string& word) {
  if (word.find_first_of(" '\"$&;()<>|*?#~`\\\n\t!{}[]") == std::string::npos && !word.empty())
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// "kvloupe", then the words.
inline std::string shell_line(const std::vector<std::string>& words) {
  std::string text = "kvloupe";
  for (const std::string& word : words) text += " " + shell_word(word);
  return text;
}

}  // namespace kvloupe::state
