// Aligned columns for people.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // A cell is a line, whatever its text holds: line ends are shown escaped (core/base/printable.h).
  void add(const std::vector<std::string>& row);
  // Words to the left, numbers to the right.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kvloupe::cli
