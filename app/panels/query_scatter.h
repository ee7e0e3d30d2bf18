// Marks shared by the two views of a head's queries.
#pragma once

#include "app/panels/view_parts.h"

#include <implot/implot.h>

#include <algorithm>
#include <string>

namespace kvloupe::panels {

// S_q lies in [-1, 1]; the colours span what occurs.
struct RelevanceRange {
  double low = -1, high = 1;
  explicit RelevanceRange(const std::vector<float>& relevance) {
    if (relevance.empty()) return;
    const auto [least, most] = std::minmax_element(relevance.begin(), relevance.end());
    low = *least;
    high = std::max(double{*most}, low + 1e-6);
  }
  ImU32 color(const widgets::Palette& palette, double value) const {
    return widgets::sequential_color(palette, 0.22 + 0.78 * (value - low) / (high - low));
  }
};

inline std::vector<widgets::Chip> query_chips(DrawContext& context,
                                              const analysis::QueryGeometry& g) {
  auto chips = trace_chips(context);
  chips.insert(
      chips.begin(),
      {std::isnan(g.pearson_r) ? std::string("r undefined")
                               : fmt::format("r = {:.2f}", g.pearson_r),
       g.pearson_r > 0.5 ? context.palette.good : 0,
       "Pearson r of S_q against the largest attention that a query gives (position 0 excluded). "
       "Above 0.5, QuoKA's premise holds in this head."});
  const auto chosen = std::count(g.chosen.begin(), g.chosen.end(), 1);
  if (!g.chosen.empty())
    chips.push_back({fmt::format("{} of {} queries chosen", chosen, g.chosen.size()), 0,
                     "The queries that stand for the chunk in the choice of the method shown."});
  return chips;
}

inline void query_mark(ImDrawList* draw, DrawContext& context, ImVec2 at, ImU32 color,
                       bool chosen) {
  const float radius = widgets::em(chosen ? 0.36F : 0.27F);
  draw->AddCircleFilled(at, radius, color);
  draw->AddCircle(at, radius, widgets::with_alpha(context.palette.faint, 0.5F));
  if (chosen)
    draw->AddCircle(at, radius + widgets::em(0.1F), context.palette.text, 0, widgets::em(0.12F));
}

}  // namespace kvloupe::panels
