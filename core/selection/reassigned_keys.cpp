#include "core/selection/reassigned_keys.h"

#include "core/base/error.h"
#include "core/selection/rotary.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace kvloupe::selection {

at::Tensor attended_keys(const MethodSpec& spec, const trace::ModelInfo& model, int layer,
                         const at::Tensor& k, std::int64_t past_len,
                         const std::vector<std::vector<std::int32_t>>& selected) {
  if (!spec.traits().reassigns_positions) return k;
  if (!has_rotary(shape_of(model), layer)) return k;
  if (model.rope_scaling != "none")
    throw input_error(fmt::format("{} cannot reassign positions", spec.id()),
                      "the model scales its rotary frequencies in a way that is not known here",
                      "use positions=original");
  const Rotary rotary(model.rope_theta, model.head_dim, model.rope_pairing);
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
      rotary.apply(rotary.turn(static_cast<double>(shift)), key);
    }
  }
  return rotated.defined() ? rotated : k;
}

}  // namespace kvloupe::selection
