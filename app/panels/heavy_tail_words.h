// What heavy_tail says in words.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_it_works/heavy_tail.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

using TailAnswer = state::HeavyTailQuestion::Answer;

std::vector<widgets::Chip> tail_chips(DrawContext& context, const state::Place& place,
                                      const TailAnswer& answer);
// How few keys and queries carry half of the attention.
std::string tail_finding(const TailAnswer& answer);
// S_q, rank and mass of a row of the chunk.
std::string tail_query_lines(const state::Place& place, const TailAnswer& answer, std::int32_t row);

}  // namespace kvloupe::panels
