#include "capture/model/weight_reader.h"

#include "capture/model/dequantise.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::capture {
namespace {

// A multiple of every block size; small enough to share the work evenly among threads.
constexpr std::int64_t kPiece = 1 << 18;

std::int64_t elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

bool names_one_expert(std::string_view pattern) {
  return pattern.find("{}") != pattern.rfind("{}");
}

// Values of the 4-bit floats E2M1, by their bits.
constexpr float kFp4[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                            -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
constexpr std::int64_t kFp4Block = 32;  // numbers under one scale, two in a byte, the first one low

}  // namespace

std::string WeightReader::stem(Role role, int layer, int expert) const {
  return fmt::format(fmt::runtime(family_.name_of(role, source_.format())), layer, expert);
}

const StoredTensor* WeightReader::find(const std::string& name) {
  const StoredTensor* tensor = source_.find_tensor(name);
  if (tensor != nullptr) names_.insert(name);
  return tensor;
}

const StoredTensor* WeightReader::find_weight(const std::string& stem) {
  if (const StoredTensor* tensor = find(stem + ".weight")) return tensor;
  return find(stem);
}

const StoredTensor* WeightReader::find_bias(const std::string& stem) {
  if (const StoredTensor* tensor = find(stem + ".bias")) return tensor;
  return find(stem + "_bias");
}

const StoredTensor& WeightReader::require(const StoredTensor* tensor, const std::string& stem,
                                          const Shape& shape) const {
  if (tensor == nullptr) throw damaged(source_, fmt::format("the tensor {} is missing", stem));
  if (tensor->shape != shape)
    throw damaged(source_, fmt::format("the tensor {} has the shape [{}], not [{}]", tensor->name,
                                       fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
  if (tensor->type == ElementType::Bytes)
    throw unsupported(source_, fmt::format("the tensor {} holds bytes, not numbers", tensor->name));
  return *tensor;
}

at::Tensor WeightReader::slice(const StoredTensor& tensor, std::int64_t begin,
                               const Shape& shape) const {
  at::Tensor out = at::empty(shape, at::kFloat);
  float* values = out.mutable_data_ptr<float>();
  const std::int64_t count = elements_of(shape), pieces = (count + kPiece - 1) / kPiece;
  at::parallel_for(0, pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * kPiece; at < std::min(count, last * kPiece); at += kPiece) {
      const auto length = static_cast<std::size_t>(std::min(kPiece, count - at));
      dequantise(tensor.type, tensor.data, begin + at, {values + at, length});
    }
  });
  return out;
}

at::Tensor WeightReader::read(Role role, const Shape& shape, int layer) {
  const std::string name = stem(role, layer);
  return slice(require(find_weight(name), name, shape), 0, shape);
}

at::Tensor WeightReader::bias(Role role, std::int64_t size, int layer) {
  const std::string name = stem(role, layer);
  const StoredTensor* tensor = find_bias(name);
  return tensor == nullptr ? at::Tensor() : slice(require(tensor, name, {size}), 0, {size});
}

bool WeightReader::has(Role role, int layer) const {
  const std::string name = stem(role, layer);
  return source_.find_tensor(name + ".weight") != nullptr || source_.find_tensor(name) != nullptr;
}

at::Tensor WeightReader::stacked(const std::vector<Part>& parts, std::int64_t columns, int layer) {
  std::vector<at::Tensor> all;
  for (const Part& part : parts) all.push_back(read(part.role, {part.rows, columns}, layer));
  return at::cat(all);
}

at::Tensor WeightReader::stacked_bias(const std::vector<Part>& parts, int layer) {
  std::vector<at::Tensor> all;
  bool any = false;
  for (const Part& part : parts) {
    all.push_back(bias(part.role, part.rows, layer));
    any = any || all.back().defined();
    if (!all.back().defined()) all.back() = at::zeros({part.rows}, at::kFloat);
  }
  return any ? at::cat(all) : at::Tensor();
}

at::Tensor WeightReader::expert(const OfExpert& of, std::int64_t rows, std::int64_t columns) {
  const std::string name = stem(of.role, of.layer, of.expert);
  const Shape one = {rows, columns};
  if (names_one_expert(family_.name_of(of.role, source_.format())))
    return slice(require(find_weight(name), name, one), 0, one);
  const std::int64_t begin = of.expert * rows * columns;
  if (source_.format() == ModelSource::Format::Gguf)
    return slice(require(find_weight(name), name, {of.experts, rows, columns}), begin, one);
  if (const StoredTensor* blocks = find(name + "_blocks"))
    return from_mxfp4(*blocks, name, of, rows, columns);
  return slice(require(find_weight(name), name, {of.experts, columns, rows}), begin,
               {columns, rows})
      .t();
}

at::Tensor WeightReader::expert_bias(const OfExpert& of, std::int64_t size) {
  const std::string name = stem(of.role, of.layer, of.expert);
  const StoredTensor* tensor = find_bias(name);
  if (tensor == nullptr) return {};
  if (names_one_expert(family_.name_of(of.role, source_.format())))
    return slice(require(tensor, name, {size}), 0, {size});
  return slice(require(tensor, name, {of.experts, size}), of.expert * size, {size});
}

// Blocks uint8 [experts, rows, columns / 32, 16] and scales uint8 [experts, rows, columns / 32], powers
// of two with a bias of 127. (OCP Microscaling Formats 1.0; transformers, integrations/mxfp4.py.)
at::Tensor WeightReader::from_mxfp4(const StoredTensor& blocks, const std::string& stem,
                                    const OfExpert& of, std::int64_t rows, std::int64_t columns) {
  const std::int64_t in_row = columns / kFp4Block;
  const StoredTensor* scales = find(stem + "_scales");
  const Shape of_blocks = {of.experts, rows, in_row, kFp4Block / 2};
  const Shape of_scales = {of.experts, rows, in_row};
  if (scales == nullptr || columns % kFp4Block != 0 || blocks.shape != of_blocks ||
      scales->shape != of_scales || blocks.type != ElementType::Bytes ||
      scales->type != ElementType::Bytes)
    throw damaged(source_, fmt::format("the tensors {0}_blocks and {0}_scales are not MXFP4 of {1} "
                                       "times {2} numbers",
                                       stem, rows, columns));
  at::Tensor out = at::empty({rows, columns}, at::kFloat);
  float* values = out.mutable_data_ptr<float>();
  const std::byte* bytes = blocks.data.data() + of.expert * rows * columns / 2;
  const std::byte* powers = scales->data.data() + of.expert * rows * in_row;
  at::parallel_for(0, rows * in_row, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const float scale = std::ldexp(1.0F, std::to_integer<int>(powers[block]) - 127);
      for (std::int64_t i = 0; i < kFp4Block / 2; ++i) {
        const auto pair = std::to_integer<unsigned>(bytes[block * kFp4Block / 2 + i]);
        values[block * kFp4Block + 2 * i] = scale * kFp4[pair & 15U];
        values[block * kFp4Block + 2 * i + 1] = scale * kFp4[pair >> 4U];
      }
    }
  });
  return out;
}

void WeightReader::refuse_unread() const {
  for (const StoredTensor* tensor : source_.tensors())
    if (names_.count(tensor->name) == 0 && tensor->name != "rope_freqs.weight")
      throw unsupported(source_, fmt::format("its tensor {} has no place in what is implemented of "
                                             "the family {}",
                                             tensor->name, family_.id));
}

}  // namespace kvloupe::capture
