// What Loki and SparQ say alike: both rank keys by logits over num_channels of a head's head_dim channels.
// Free of Torch.
#pragma once

#include "core/selection/spec/method.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::selection {

// num_channels and agg. `channels`: what is counted, "principal directions".
std::vector<ParamInfo> narrow_logit_params(const std::string& channels);
// Method::ablated: exact logits are those over all channels.
void set_channel_count_param(Method& method);
// Throws Error{Input} where a head has fewer channels than are to be compared. `channels` as the message
// calls them.
void check_num_channels(const Setup& setup, std::string_view channels);

}  // namespace kvloupe::selection
