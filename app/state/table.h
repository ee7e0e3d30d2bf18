// Tables and arrays that views export, and their texts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// Rows of text cells, numbers in their shortest exact form.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// A dense array for numpy; values of one type, row-major.
struct Array {
  std::string dtype;  // "<f4", "<f8", "|u1"
  std::vector<std::int64_t> shape;
  std::string bytes;
};

std::string cell(double value);  // empty for a NaN
std::string cell(std::int64_t value);
std::string csv_text(const Table& table);
std::string npy_bytes(const Array& array);
template <typename T>
Array array_of(const char* dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

}  // namespace kvloupe::state
