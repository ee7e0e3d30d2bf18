#include "core/selection/reassigned_keys.h"

#include "core/base/error.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

namespace kvloupe::selection {
namespace {

// Rotates one key from its position to the one `shift` later.
void rotate(float* key, const trace::ModelInfo& model, double shift) {
  const int half = model.head_dim / 2;
  const bool interleaved = model.rope_pairing == trace::RopePairing::Interleaved;
  for (int i = 0; i < half; ++i) {
    const double angle = shift * std::pow(model.rope_theta, -2.0 * i / model.head_dim);
    float& a = key[interleaved ? 2 * i : i];
    float& b = key[interleaved ? 2 * i + 1 : i + half];
    const double x = static_cast<double>(a);
    const double y = static_cast<double>(b);
    a = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    b = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
  }
}

bool has_rotary(const trace::ModelInfo& model, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  return index >= model.layer_types.size() || model.layer_types[index] != trace::LayerType::Nope;
}

}  // namespace

at::Tensor attended_keys(const MethodSpec& spec, const trace::ModelInfo& model, int layer,
                         const at::Tensor& k, std::int64_t past_len,
                         const std::vector<std::vector<std::int32_t>>& selected) {
  if (!spec.has("positions") || spec.text("positions") != "reassigned") return k;
  if (!has_rotary(model, layer)) return k;
  if (model.rope_scaling != "none")
    throw input_error(fmt::format("{} cannot reassign positions", spec.id()),
                      "the model scales its rotary frequencies in a way that is not known here",
                      "use positions=original");
  at::Tensor rotated;
  for (std::size_t head = 0; head < selected.size(); ++head) {
    const auto kept = static_cast<std::int64_t>(selected[head].size());
    for (std::int64_t slot = 0; slot < kept; ++slot) {
      const std::int64_t position = selected[head][static_cast<std::size_t>(slot)];
      const std::int64_t shift = past_len - kept + slot - position;
      if (shift == 0) continue;
      if (!rotated.defined()) rotated = k.clone();
      float* key = rotated.mutable_data_ptr<float>() +
                   static_cast<std::int64_t>(head) * rotated.stride(0) +
                   position * rotated.stride(1);
      rotate(key, model, static_cast<double>(shift));
    }
  }
  return rotated.defined() ? rotated : k;
}

}  // namespace kvloupe::selection
