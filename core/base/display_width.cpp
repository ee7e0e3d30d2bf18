#include "core/base/display_width.h"

#include "core/base/code_point.h"

#include <utf8proc.h>

namespace kvloupe {
namespace {

std::size_t width_of(const CodePoint& point) {
  return point.number < 0 ? 1 : static_cast<std::size_t>(utf8proc_charwidth(point.number));
}

}  // namespace

std::size_t bytes_that_fit(std::string_view text, std::size_t width) {
  std::size_t bytes = 0, taken = 0;
  while (bytes < text.size()) {
    const CodePoint next = first_code_point(text.substr(bytes));
    taken += width_of(next);
    if (taken > width) break;
    bytes += next.bytes;
  }
  return bytes;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (CodePoint next; !text.empty(); text.remove_prefix(next.bytes)) {
    next = first_code_point(text);
    width += width_of(next);
  }
  return width;
}

}  // namespace kvloupe
