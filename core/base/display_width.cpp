#include "core/base/display_width.h"

#include <utf8proc.h>

namespace kvloupe {
namespace {

struct CodePoint {
  utf8proc_int32_t number = -1;  // negative: the byte begins none
  std::size_t bytes = 1;

  explicit CodePoint(std::string_view text) {
    const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &number);
    if (used > 0) bytes = static_cast<std::size_t>(used);
  }
  std::size_t width() const {
    return number < 0 ? 1 : static_cast<std::size_t>(utf8proc_charwidth(number));
  }
};

}  // namespace

std::size_t bytes_that_fit(std::string_view text, std::size_t width) {
  std::size_t bytes = 0, taken = 0;
  while (bytes < text.size()) {
    const CodePoint next(text.substr(bytes));
    taken += next.width();
    if (taken > width) break;
    bytes += next.bytes;
  }
  return bytes;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (; !text.empty(); text.remove_prefix(CodePoint(text).bytes)) width += CodePoint(text).width();
  return width;
}

}  // namespace kvloupe
