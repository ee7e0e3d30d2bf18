#include "core/base/code_point.h"

#include <utf8proc.h>

namespace kvloupe {

CodePoint first_code_point(std::string_view text) {
  utf8proc_int32_t number = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &number);
  if (bytes <= 0) return {};
  return {number, static_cast<std::size_t>(bytes)};
}

}  // namespace kvloupe
