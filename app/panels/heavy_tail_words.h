// What heavy_tail says in words.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_it_works/heavy_tail.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

using TailAnswer = state::HeavyTailQuestion::Answer;

// `plot`: the value of the view's option.
std::vector<widgets::Chip> tail_chips(DrawContext& context, const state::Place& place,
                                      const TailAnswer& answer, const std::string& plot);
// What the plot says here, by the value of the view's option: how few keys and queries carry half of the
// attention, how much the queries of largest S_q give, or whether the maximum of a key's scores, QuoKA's
// choice, finds more of the keys with half of the attention than their mean.
std::string tail_finding(const TailAnswer& answer, const std::string& plot);
// S_q, rank and mass of a row of the chunk.
std::string tail_query_lines(const state::Place& place, const TailAnswer& answer, std::int32_t row);

}  // namespace kvloupe::panels
