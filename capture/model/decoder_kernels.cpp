// Three operators of namespace kvloupe: plain loops on the CPU, Torch's operators on other devices.
#include "capture/model/decoder_kernels.h"

#include "core/attention/find_operator.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvloupe::capture {
namespace {

using MaybeTensor = std::optional<at::Tensor>;
using Norm = at::Tensor(const at::Tensor&, const at::Tensor&, double);
using NormColumns = void(const at::Tensor&, std::int64_t, std::int64_t, const at::Tensor&, double);
using SplitAndRotate = at::Tensor(const at::Tensor&, std::int64_t, std::int64_t,
                                  const MaybeTensor& cos, const MaybeTensor& sin, bool interleaved);

// Pair i of a head: elements 2i and 2i + 1.
void rotate_interleaved(const float* in, const float* cos, const float* sin, std::int64_t pairs,
                        float* out) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = in[2 * i];
    const float b = in[2 * i + 1];
    out[2 * i] = a * cos[i] - b * sin[i];
    out[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

// Pair i of a head: elements i and head_dim / 2 + i.
void rotate_half_split(const float* in, const float* cos, const float* sin, std::int64_t pairs,
                       float* out) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = in[i];
    const float b = in[pairs + i];
    out[i] = a * cos[i] - b * sin[i];
    out[pairs + i] = b * cos[i] + a * sin[i];
  }
}

// `out` may be `in`.
void norm_row(const float* in, const float* scale, std::int64_t size, double eps, float* out) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += in[i] * in[i];
  const float factor = 1.0F / std::sqrt(sum / static_cast<float>(size) + static_cast<float>(eps));
  for (std::int64_t i = 0; i < size; ++i) out[i] = scale[i] * (in[i] * factor);
}

namespace cpu {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  at::Tensor out = at::empty_like(x);
  const std::int64_t size = x.size(1);
  const float* const in = x.const_data_ptr<float>();
  const float* const scale = weight.const_data_ptr<float>();
  float* const result = out.data_ptr<float>();
  constexpr std::int64_t kGrain = 16;
  at::parallel_for(0, x.size(0), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      norm_row(in + row * size, scale, size, eps, result + row * size);
  });
  return out;
}

void rms_norm_columns(const at::Tensor& x, std::int64_t first, std::int64_t count,
                      const at::Tensor& weight, double eps) {
  const std::int64_t width = weight.size(0), columns = x.size(1);
  const float* const scale = weight.const_data_ptr<float>();
  float* const values = x.mutable_data_ptr<float>();
  constexpr std::int64_t kGrain = 16;
  at::parallel_for(0, x.size(0), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t piece = 0; piece < count; ++piece) {
        float* const part = values + row * columns + first + piece * width;
        norm_row(part, scale, width, eps, part);
      }
  });
}

at::Tensor split_and_rotate(const at::Tensor& projected, std::int64_t num_heads,
                            std::int64_t num_rotated, const MaybeTensor& cosines,
                            const MaybeTensor& sines, bool interleaved) {
  const std::int64_t rows = projected.size(0);
  const std::int64_t head_dim = projected.size(1) / num_heads;
  const std::int64_t pairs = head_dim / 2;
  at::Tensor out = at::empty({num_heads, rows, head_dim}, at::kFloat);
  const float* const in = projected.const_data_ptr<float>();
  const float* const cos = num_rotated > 0 ? cosines->const_data_ptr<float>() : nullptr;
  const float* const sin = num_rotated > 0 ? sines->const_data_ptr<float>() : nullptr;
  float* const result = out.data_ptr<float>();
  const auto rotate = interleaved ? rotate_interleaved : rotate_half_split;
  // A decoded token's heads are not worth waking a thread for.
  constexpr std::int64_t kGrainElements = 16384;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / (rows * head_dim));
  at::parallel_for(0, num_heads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      for (std::int64_t t = 0; t < rows; ++t) {
        const float* const from = in + (t * num_heads + head) * head_dim;
        float* const to = result + (head * rows + t) * head_dim;
        if (head < num_rotated) {
          rotate(from, cos + t * pairs, sin + t * pairs, pairs, to);
        } else {
          std::copy_n(from, head_dim, to);
        }
      }
    }
  });
  return out;
}

}  // namespace cpu

namespace generic {

// Along the last dimension.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return weight * (x * at::rsqrt(x.square().mean(-1, true) + eps));
}

void rms_norm_columns(const at::Tensor& x, std::int64_t first, std::int64_t count,
                      const at::Tensor& weight, double eps) {
  const std::int64_t width = weight.size(0);
  const at::Tensor pieces = x.narrow(1, first, count * width).view({x.size(0), count, width});
  pieces.copy_(rms_norm(pieces, weight, eps));
}

at::Tensor rotate(const at::Tensor& heads, const at::Tensor& cos, const at::Tensor& sin,
                  bool interleaved) {
  const std::int64_t pairs = cos.size(1);
  const auto element = [&](std::int64_t i) {
    return interleaved ? heads.unflatten(2, {pairs, 2}).select(3, i)
                       : heads.narrow(2, i * pairs, pairs);
  };
  const at::Tensor a = element(0), b = element(1);
  const at::Tensor turned_a = a * cos - b * sin, turned_b = b * cos + a * sin;
  return interleaved ? at::stack({turned_a, turned_b}, 3).flatten(2)
                     : at::cat({turned_a, turned_b}, 2);
}

at::Tensor split_and_rotate(const at::Tensor& projected, std::int64_t num_heads,
                            std::int64_t num_rotated, const MaybeTensor& cos,
                            const MaybeTensor& sin, bool interleaved) {
  const at::Tensor heads =
      projected.unflatten(1, {num_heads, projected.size(1) / num_heads}).transpose(0, 1);
  if (num_rotated == 0) return heads.contiguous();
  return at::cat({rotate(heads.narrow(0, 0, num_rotated), *cos, *sin, interleaved),
                  heads.narrow(0, num_rotated, num_heads - num_rotated)});
}

}  // namespace generic
}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  KVLOUPE_CHECK(x.is_contiguous() && weight.is_contiguous() && x.size(1) == weight.size(0));
  static const auto op = attention::find_operator<Norm>("kvloupe::rms_norm");
  return op.call(x, weight, eps);
}

void rms_norm_columns(const at::Tensor& x, std::int64_t first, std::int64_t count,
                      const at::Tensor& weight, double eps) {
  KVLOUPE_CHECK(x.is_contiguous() && first + count * weight.size(0) <= x.size(1));
  static const auto op = attention::find_operator<NormColumns>("kvloupe::rms_norm_columns_");
  op.call(x, first, count, weight, eps);
}

RopeTable rope_table(std::int64_t begin, std::int64_t count, const RopeFrequencies& rope) {
  const auto pairs = static_cast<std::int64_t>(rope.frequencies.size());
  RopeTable table{at::empty({count, pairs}, at::kFloat), at::empty({count, pairs}, at::kFloat)};
  float* const cos = table.cos.data_ptr<float>();
  float* const sin = table.sin.data_ptr<float>();
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (std::int64_t t = 0; t < count; ++t) {
      const float angle = static_cast<float>(begin + t) * rope.frequencies[i];
      cos[t * pairs + i] = std::cos(angle) * rope.magnitude;
      sin[t * pairs + i] = std::sin(angle) * rope.magnitude;
    }
  }
  return table;
}

at::Tensor split_and_rotate(const at::Tensor& projected, std::int64_t num_heads,
                            std::int64_t num_rotated, const RopeTable& table,
                            trace::RopePairing pairing) {
  KVLOUPE_CHECK(projected.is_contiguous() && projected.size(1) % num_heads == 0);
  const std::int64_t pairs = projected.size(1) / num_heads / 2;
  KVLOUPE_CHECK(num_rotated == 0 ||
                (table.cos.size(0) == projected.size(0) && table.cos.size(1) == pairs));
  static const auto op = attention::find_operator<SplitAndRotate>("kvloupe::split_and_rotate");
  const auto given = [&](const at::Tensor& values) {
    return num_rotated > 0 ? MaybeTensor(values) : std::nullopt;
  };
  return op.call(projected, num_heads, num_rotated, given(table.cos), given(table.sin),
                 pairing == trace::RopePairing::Interleaved);
}

}  // namespace kvloupe::capture

TORCH_LIBRARY_FRAGMENT(kvloupe, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_columns_(Tensor(a!) x, int first, int count, Tensor weight, float eps) -> ()");
  m.def(
      "split_and_rotate(Tensor projected, int num_heads, int num_rotated, Tensor? cos, "
      "Tensor? sin, bool interleaved) -> Tensor");
}

TORCH_LIBRARY_IMPL(kvloupe, CPU, m) {
  m.impl("rms_norm", kvloupe::capture::cpu::rms_norm);
  m.impl("rms_norm_columns_", kvloupe::capture::cpu::rms_norm_columns);
  m.impl("split_and_rotate", kvloupe::capture::cpu::split_and_rotate);
}

TORCH_LIBRARY_IMPL(kvloupe, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", kvloupe::capture::generic::rms_norm);
  m.impl("rms_norm_columns_", kvloupe::capture::generic::rms_norm_columns);
  m.impl("split_and_rotate", kvloupe::capture::generic::split_and_rotate);
}
