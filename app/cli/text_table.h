// Aligned columns for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvloupe::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // A cell is a line, whatever its text holds: line ends are shown escaped (core/base/printable.h).
  void add(const std::vector<std::string>& row);
  // Words to the left, numbers to the right. Lines of at most `width` characters as far as the first
  // column can be broken, at its commas.
  std::string text(std::size_t width = kNoWidth) const;

 private:
  static constexpr std::size_t kNoWidth = std::size_t(-1);
  std::vector<std::size_t> widths(std::size_t most) const;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kvloupe::cli
