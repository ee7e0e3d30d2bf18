#include "core/selection/methods/narrow_logits.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace kvloupe::selection {

std::vector<ParamInfo> narrow_logit_params(const std::string& channels) {
  return {formula_param("num_channels", "head_dim/4", 1, 1 << 20,
                        channels + " that are compared; at most head_dim"),
          enum_param("agg", {"logit_mean", "prob_mean"},
                     "over the chunk's rows and the group's heads: the mean of the "
                     "approximate logits, or of their softmax")};
}

void set_channel_count_param(Method& method) {
  method.ablated = [](Ablation, std::int64_t, int head_dim) {
    return std::optional(ParamValues{{"num_channels", fmt::format("{}", head_dim)}});
  };
}

void check_num_channels(const Setup& setup, std::string_view channels) {
  const std::int64_t asked = setup.spec.integer("num_channels");
  if (asked > setup.shape.head_dim)
    throw input_error(fmt::format("{} cannot compare {} {}", setup.spec.id(), asked, channels),
                      fmt::format("a head of this model has {}", setup.shape.head_dim),
                      "give a smaller num_channels");
}

}  // namespace kvloupe::selection
