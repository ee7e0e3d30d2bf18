#include "core/selection/rotary.h"

#include "core/base/error.h"

#include <algorithm>
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

void Rotary::apply(const Turn& turn, float* row) const {
  const std::size_t half = frequencies_.size();
  for (std::size_t i = 0; i < half; ++i) {
    float& a = row[interleaved_ ? 2 * i : i];
    float& b = row[interleaved_ ? 2 * i + 1 : i + half];
    const double x = static_cast<double>(a);
    const double y = static_cast<double>(b);
    a = static_cast<float>(x * turn.cos[i] - y * turn.sin[i]);
    b = static_cast<float>(x * turn.sin[i] + y * turn.cos[i]);
  }
}

bool has_rotary(const ModelShape& shape, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  return index >= shape.layer_types.size() || shape.layer_types[index] != trace::LayerType::Nope;
}

RotaryUndo::RotaryUndo(const ModelShape& shape, const std::string& what_failed)
    : dim_(shape.head_dim),
      interleaved_(shape.rope_pairing == trace::RopePairing::Interleaved),
      rotary_(shape.rope_theta, shape.head_dim, trace::RopePairing::HalfSplit) {
  if (shape.rope_scaling != "none")
    throw input_error(
        what_failed,
        "the model scales its rotary frequencies in a way that is not known here, and "
        "the method needs queries and keys from before the rotary embedding",
        "use a model without rope_scaling");
  const bool any = [&] {
    for (int layer = 0; layer < shape.num_layers; ++layer)
      if (has_rotary(shape, layer)) return true;
    return false;
  }();
  if (any && (shape.rope_theta <= 0 || shape.head_dim % 2 != 0))
    throw input_error(what_failed,
                      "the trace does not say how the model's rotary embedding turns its heads",
                      "capture the trace anew");
}

Rotary::Turn RotaryUndo::turn_back(std::int64_t position) const {
  return rotary_.turn(-static_cast<double>(position));
}

void RotaryUndo::undo(const Rotary::Turn* turn, const float* row, float* out) const {
  if (interleaved_) {
    for (std::int64_t i = 0; i < dim_ / 2; ++i) {
      out[i] = row[2 * i];
      out[i + dim_ / 2] = row[2 * i + 1];
    }
  } else {
    std::copy_n(row, dim_, out);
  }
  if (turn != nullptr) rotary_.apply(*turn, out);
}

}  // namespace kvloupe::selection
