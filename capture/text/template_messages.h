// What the program and kvloupe_render say to each other: strings with their lengths before them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace kvloupe::capture {

// The first string of an answer.
inline constexpr std::string_view kRendered = "rendered", kFailed = "failed";

inline void put_string(std::string& to, std::string_view text) {
  const std::uint64_t size = text.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof(size));
  to += text;
}

// Takes the next string from the front; nullopt at the end, and where a length does not fit.
inline std::optional<std::string> take_string(std::string_view& from) {
  std::uint64_t size = 0;
  if (from.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, from.data(), sizeof(size));
  if (size > from.size() - sizeof(size)) return std::nullopt;
  std::string text(from.substr(sizeof(size), size));
  from.remove_prefix(sizeof(size) + size);
  return text;
}

}  // namespace kvloupe::capture
