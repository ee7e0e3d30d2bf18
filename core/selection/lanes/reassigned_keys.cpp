#include "core/selection/lanes/reassigned_keys.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/lanes/rotary.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

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
    const std::vector<std::int32_t>& kept = selected[head];
    const auto count = static_cast<std::int64_t>(kept.size());
    std::vector<double> shifts;
    for (std::int64_t slot = 0; slot < count; ++slot)
      shifts.push_back(
          static_cast<double>(past_len - count + slot - kept[static_cast<std::size_t>(slot)]));
    if (std::ranges::all_of(shifts, [](double shift) { return shift == 0; })) continue;
    if (!rotated.defined()) rotated = k.clone();
    at::Tensor keys = rotated.select(0, static_cast<std::int64_t>(head));
    const at::Tensor places = on_device(kept, k.device()).to(at::kLong);
    const at::Tensor turned =
        rotary.turned(keys.index_select(0, places).unsqueeze(0), shifts).squeeze(0);
    keys.index_copy_(0, places, turned.to(k.scalar_type()));
  }
  return rotated.defined() ? rotated : k;
}

}  // namespace kvloupe::selection
