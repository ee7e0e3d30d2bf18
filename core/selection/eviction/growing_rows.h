// Rows of each KV head that come in over time: room is taken ahead, so that a chunk pays for its own
// rows alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvloupe::selection {

class GrowingRows {
 public:
  std::int64_t size() const { return size_; }
  // [G, size(), ...] in place; an undefined tensor while there are none.
  at::Tensor rows() const;
  // The rows from `begin` on, at most size(), are `rows` [G, n, ...] now. What rows() gave before keeps
  // its values of the rows before `begin`.
  void put(std::int64_t begin, const at::Tensor& rows);

 private:
  at::Tensor room_;  // [G, more than size_, ...]
  std::int64_t size_ = 0;
};

}  // namespace kvloupe::selection
