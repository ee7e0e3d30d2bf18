#include "core/selection/lanes/rotary.h"

#include "core/attention/upload.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

#include <cmath>

namespace kvloupe::selection {

Rotary::Rotary(double theta, std::int64_t dim, trace::RopePairing pairing)
    : interleaved_(pairing == trace::RopePairing::Interleaved) {
  for (std::int64_t i = 0; i < dim / 2; ++i)
    frequencies_.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
}

Rotary::Turn Rotary::turn(double positions) const {
  Turn turn;
  for (const double frequency : frequencies_) {
    turn.cos.push_back(std::cos(positions * frequency));
    turn.sin.push_back(std::sin(positions * frequency));
  }
  return turn;
}

at::Tensor Rotary::turned(const at::Tensor& rows, std::span<const double> positions) const {
  const auto half = static_cast<std::int64_t>(frequencies_.size());
  const std::int64_t heads = rows.size(0), count = rows.size(1);
  KVLOUPE_CHECK(rows.size(2) == 2 * half && static_cast<std::int64_t>(positions.size()) == count);
  std::vector<double> cos_values, sin_values;
  for (const double position : positions) {
    const Turn by = turn(position);
    cos_values.insert(cos_values.end(), by.cos.begin(), by.cos.end());
    sin_values.insert(sin_values.end(), by.sin.begin(), by.sin.end());
  }
  const auto table = [&](const std::vector<double>& values) {
    return attention::uploaded(at::tensor(values, at::kDouble).view({count, half}), rows.device());
  };
  const at::Tensor cos = table(cos_values), sin = table(sin_values);
  // The pairs of a row side by side.
  const at::Tensor pairs = (interleaved_ ? rows.reshape({heads, count, half, 2}).transpose(2, 3)
                                         : rows.reshape({heads, count, 2, half}))
                               .to(at::kDouble);
  const at::Tensor x = pairs.select(2, 0), y = pairs.select(2, 1);
  return at::stack({x * cos - y * sin, x * sin + y * cos}, interleaved_ ? 3 : 2)
      .to(at::kFloat)
      .view({heads, count, 2 * half});
}

RotaryUndo::RotaryUndo(const ModelShape& shape, const std::string& what_failed)
    : dim_(shape.head_dim),
      interleaved_(shape.rope_pairing == trace::RopePairing::Interleaved),
      rotary_(shape.rope_theta, shape.head_dim, trace::RopePairing::HalfSplit) {
  if (const auto unknown = rotary_unknown(shape))
    throw input_error(
        what_failed,
        unknown->why + ", and queries and keys from before the rotary embedding are needed",
        unknown->what_to_do);
}

at::Tensor RotaryUndo::undo(const at::Tensor& rows, std::optional<std::int64_t> first) const {
  const std::int64_t heads = rows.size(0), count = rows.size(1);
  const at::Tensor split =
      interleaved_ ? rows.reshape({heads, count, dim_ / 2, 2}).transpose(2, 3).reshape(rows.sizes())
                   : rows.contiguous();
  if (!first) return split;
  std::vector<double> back;
  for (std::int64_t row = 0; row < count; ++row) back.push_back(-static_cast<double>(*first + row));
  return rotary_.turned(split, back);
}

}  // namespace kvloupe::selection
