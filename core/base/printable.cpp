#include "core/base/printable.h"

#include "core/base/code_point.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

namespace kvloupe {
namespace {

// A terminal that obeys these shows text in another order than it has.
bool turns_direction(utf8proc_int32_t code_point) {
  return code_point == 0x061C || code_point == 0x200E || code_point == 0x200F ||
         (code_point >= 0x202A && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

bool is_printable(utf8proc_int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return !turns_direction(code_point);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_code_point(text, [&](std::int32_t number, std::string_view bytes) {
    if (number >= 0 && is_printable(number)) {
      out += bytes;
    } else {
      for (const char byte : bytes)
        out += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
    }
  });
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += printable(text.substr(0, end));
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace kvloupe
