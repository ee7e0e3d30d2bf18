#include "app/state/array.h"

#include <fmt/format.h>

namespace kvloupe::state {

// Format 1.0 of numpy.lib.format: magic, version, header length, a Python literal padded to 64
// bytes.
std::string npy_bytes(const Array& array) {
  std::string shape;
  for (const std::int64_t extent : array.shape) shape += fmt::format("{}, ", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", array.dtype, shape);
  constexpr std::size_t kPrefix = 10;
  header.append((64 - (kPrefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255U);
  out += static_cast<char>(header.size() >> 8);
  return out + header + array.bytes;
}

}  // namespace kvloupe::state
