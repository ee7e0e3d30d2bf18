// Arrays that views export.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// A dense array for numpy; values of one type, row-major.
struct Array {
  std::string dtype;  // "<f4", "<f8", "|u1"
  std::vector<std::int64_t> shape;
  std::string bytes;
};

std::string npy_bytes(const Array& array);
template <typename T>
Array array_of(const char* dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

}  // namespace kvloupe::state
