#include "app/state/table.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <cmath>

namespace kvloupe::state {

std::string cell(double value) {
  return std::isnan(value) ? std::string() : format_shortest(value);
}
std::string cell(std::int64_t value) { return fmt::format("{}", value); }

std::string csv_text(const Table& table) {
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    return out + "\"";
  };
  std::string out;
  const auto append = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + quoted(cells[i]);
    out += '\n';
  };
  append(table.columns);
  for (const auto& row : table.rows) append(row);
  return out;
}

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
