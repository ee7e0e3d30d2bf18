// Memory that plain values hold beside their own size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

// Short texts stand in the value itself.
inline std::uint64_t held_bytes(const std::string& text) {
  static const std::size_t inside = std::string().capacity();
  return text.capacity() > inside ? text.capacity() + 1 : 0;
}

// The elements; not what they hold in turn.
template <typename T>
std::uint64_t held_bytes(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

inline std::uint64_t held_bytes(const std::vector<std::string>& texts) {
  std::uint64_t sum = texts.capacity() * sizeof(std::string);
  for (const std::string& text : texts) sum += held_bytes(text);
  return sum;
}

}  // namespace kvloupe
