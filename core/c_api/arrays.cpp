#include "core/c_api/arrays.h"

#include "core/base/error.h"
#include "core/base/finite.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace kvloupe::c_api {
namespace {

Error refused(const char* name, std::string why, std::string remedy) {
  return usage_error(fmt::format("the array {} cannot be used", name), std::move(why),
                     std::move(remedy));
}

c10::ScalarType type_of(const kvloupe_array& array, const char* name) {
  switch (array.dtype) {
    case KVLOUPE_FLOAT32: return at::kFloat;
    case KVLOUPE_FLOAT16: return at::kHalf;
    case KVLOUPE_BFLOAT16: return at::kBFloat16;
    default:
      throw refused(name, fmt::format("{} is no type of number", array.dtype),
                    "give KVLOUPE_FLOAT32, KVLOUPE_FLOAT16 or KVLOUPE_BFLOAT16");
  }
}

void check_strides(const kvloupe_array& array, const char* name) {
  const auto& [heads, rows, lanes] = array.strides;
  if (array.shape[2] > 1 && lanes != 1)
    throw refused(name, fmt::format("its last stride is {}", lanes),
                  "the numbers of a row must follow each other: pass a contiguous copy");
  // Farther apart than any memory reaches, a product of stride and length would run over.
  constexpr std::int64_t kMost = std::int64_t{1} << 46;
  for (const auto& [stride, length] :
       {std::pair(heads, array.shape[0]), std::pair(rows, array.shape[1])})
    if (length > 1 && (stride < 0 || stride > kMost / length))
      throw refused(name, fmt::format("its strides are {}, {}, {}", heads, rows, lanes),
                    "they count elements and are not negative: pass a contiguous copy");
}

}  // namespace

std::int64_t length_of(const kvloupe_array& array, const char* name) {
  const std::int64_t length = array.shape[1];
  if (length < 1 || length > std::numeric_limits<std::int32_t>::max())
    throw refused(name, fmt::format("its second axis is {} long", length),
                  "a chunk has at least one token, and positions fit 31 bits");
  return length;
}

at::Tensor tensor_of(const kvloupe_array& array, const ArrayShape& shape, std::int64_t from,
                     bool whole) {
  if (array.shape[0] != shape.heads || array.shape[1] != shape.length ||
      array.shape[2] != shape.head_dim)
    throw refused(
        shape.name,
        fmt::format("its shape is [{}, {}, {}]", array.shape[0], array.shape[1], array.shape[2]),
        fmt::format("give {}, here [{}, {}, {}]", shape.words, shape.heads, shape.length,
                    shape.head_dim));
  const c10::ScalarType type = type_of(array, shape.name);
  check_strides(array, shape.name);
  if (array.data == nullptr)
    throw refused(shape.name, "its memory is NULL", "pass where its numbers lie");
  if (reinterpret_cast<std::uintptr_t>(array.data) % c10::elementSize(type) != 0)
    throw refused(shape.name, "its numbers do not lie at multiples of their size",
                  "pass an aligned copy");
  const at::Tensor given =
      at::from_blob(const_cast<void*>(array.data), {shape.heads, shape.length, shape.head_dim},
                    {array.strides[0], array.strides[1], std::int64_t{1}},
                    at::TensorOptions().dtype(type))
          .narrow(1, from, shape.length - from);
  const bool rows_follow = given.size(1) == 1 || given.stride(1) == shape.head_dim;
  if (type == at::kFloat && (whole ? given.is_contiguous() : rows_follow)) return given;
  return at::empty(given.sizes(), at::kFloat).copy_(given);
}

void check_finite(const at::Tensor& rows, const char* name, int layer, std::int64_t begin,
                  std::int64_t end, std::int64_t first) {
  const std::int64_t dim = rows.size(2), heads = rows.size(0);
  const auto of_head = [&](std::int64_t head) {
    return rows.const_data_ptr<float>() + head * rows.stride(0) + begin * dim;
  };
  const auto finite_at = [](const float* values, std::int64_t count) {
    return all_finite({values, static_cast<std::size_t>(count)});
  };
  // One thread: it takes less than to wait for others.
  bool finite = true;
  for (std::int64_t head = 0; head < heads; ++head)
    finite &= finite_at(of_head(head), (end - begin) * dim);
  if (finite) return;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < end - begin; ++row)
      if (!finite_at(of_head(head) + row * dim, dim))
        throw input_error(fmt::format("layer {}, head {} of {}, position {} cannot be used", layer,
                                      head, name, first + begin + row),
                          "it holds a NaN or an infinity", "give numbers that are finite");
}

}  // namespace kvloupe::c_api
