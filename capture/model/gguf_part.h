// The files that llama.cpp splits a model into, by their names. Inline: the window asks it without the engine.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kvloupe::capture {

// What the name of a part says: NAME-00002-of-00005.gguf.
struct GgufPart {
  std::string stem;  // NAME, with its folder
  int number = 1, count = 1;

  std::filesystem::path file(int other) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
  }
};

// nullopt for any other name.
inline std::optional<GgufPart> gguf_part(const std::filesystem::path& file) {
  constexpr std::string_view kEnding = "-00000-of-00000.gguf";  // zeros stand for digits
  const std::string name = file.string();
  if (name.size() <= kEnding.size()) return std::nullopt;
  const std::size_t begin = name.size() - kEnding.size();
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    const char c = name[begin + i];
    if (kEnding[i] == '0' ? c < '0' || c > '9' : c != kEnding[i]) return std::nullopt;
  }
  const GgufPart part{name.substr(0, begin), std::stoi(name.substr(begin + 1, 5)),
                      std::stoi(name.substr(begin + 10, 5))};
  return part.number < 1 || part.number > part.count ? std::nullopt : std::optional(part);
}

}  // namespace kvloupe::capture
