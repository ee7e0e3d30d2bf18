// Arrays of the caller as tensors. Needs Torch.
#pragma once

#include "core/c_api/kvloupe.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace kvloupe::c_api {

// What an array must be: `heads` rows of `length` times `head_dim` numbers.
struct ArrayShape {
  const char* name;   // "q"
  const char* words;  // "[q_heads, m, head_dim]"
  std::int64_t heads = 0;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
};

// The length that an array's second axis says; throws Error{Usage} below 1 or above what positions count.
std::int64_t length_of(const kvloupe_array& array, const char* name);

// Rows [from, length) of every head as float32, the rows of a head one after the other: the caller's memory where
// it is so already, else a copy. `whole`: the heads follow each other, too. Throws Error{Usage} naming the array for
// another shape, a type or strides that cannot be read, memory that is not there.
at::Tensor tensor_of(const kvloupe_array& array, const ArrayShape& shape, std::int64_t from = 0,
                     bool whole = false);

// Throws Error{Input} naming layer, head and position for a NaN or an infinity in rows [begin, end) of
// float32 [heads, rows, head_dim]; `first` is the position of row 0.
void check_finite(const at::Tensor& rows, const char* name, int layer, std::int64_t begin,
                  std::int64_t end, std::int64_t first);

}  // namespace kvloupe::c_api
