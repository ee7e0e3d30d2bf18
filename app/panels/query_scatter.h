// What the two views of a head's queries share.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/questions/query_geometry.h"

#include <implot/implot.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::panels {

using QueryAnswer = state::QueryGeometryQuestion::Answer;

inline constexpr ImPlotFlags kScatterFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                             ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                             ImPlotFlags_NoBoxSelect;

// The colours of S_q span what occurs.
inline ImU32 relevance_color(const widgets::Palette& palette, double share) {
  return widgets::sequential_color(palette, 0.22 + 0.78 * share);
}
inline ImU32 relevance_color(const widgets::Palette& palette, const QueryAnswer& answer,
                             std::size_t query) {
  const double low = answer.least_relevance, high = answer.most_relevance;
  return relevance_color(palette, (answer.geometry.relevance[query] - low) / (high - low));
}

inline std::vector<widgets::Chip> query_chips(DrawContext& context, const state::Place& place,
                                              const QueryAnswer& answer) {
  const double r = answer.geometry.pearson_r;
  std::vector<widgets::Chip> chips{
      {std::isnan(r) ? std::string("r undefined") : fmt::format("r = {:.2f}", r),
       r > 0.5 ? context.palette.good : 0,
       "Pearson r of S_q against the largest attention that a query gives (position 0 excluded). "
       "Above 0.5, QuoKA's premise holds in this head."}};
  for (widgets::Chip& chip : trace_chips(context, place)) chips.push_back(std::move(chip));
  const std::string& by = answer.chosen_by;
  const std::size_t queries = answer.num_queries();
  if (by.empty()) return chips;
  if (!answer.geometry.chosen_missing.empty())
    chips.push_back({fmt::format("queries of {} not known", by), context.palette.warning,
                     answer.geometry.chosen_missing});
  else if (answer.geometry.chosen.empty())
    chips.push_back({fmt::format("{} singles out no query", by), 0,
                     "The method lets all queries of the chunk speak, or none: none is ringed."});
  else
    chips.push_back({fmt::format("{} of {} {} chosen by {}", answer.num_chosen, queries,
                                 queries == 1 ? "query" : "queries", by),
                     0, fmt::format("The queries that {} scores keys with.", by)});
  return chips;
}

// The query that the user looks at, counted from the chunk's begin; -1: none of this chunk.
inline std::int32_t looked_at(const state::Place& place) {
  const std::int32_t query = place.query - place.chunk_info().begin;
  return query >= 0 && query < place.chunk_info().length ? query : -1;
}

// What the rings mean.
inline void add_rings(const widgets::Palette& palette, const state::Place& place,
                      const QueryAnswer& answer, std::vector<widgets::LegendItem>& items) {
  constexpr auto kRing = widgets::LegendItem::Shape::Ring;
  if (!answer.geometry.chosen.empty())
    items.push_back({"query chosen by " + answer.chosen_by, palette.text, kRing});
  if (looked_at(place) >= 0) items.push_back({"selected query", palette.accent, kRing});
}

// Dots of the queries, the chosen ones ringed and on top; the one that the user looks at is marked.
template <typename At>
void queries_ui(DrawContext& context, const state::Place& place, const QueryAnswer& answer,
                const At& at) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  for (const bool chosen : {false, true})
    for (std::size_t i = 0; i < answer.num_queries(); ++i) {
      if (answer.is_chosen(i) != chosen) continue;
      const float radius = widgets::em(chosen ? 0.36F : 0.27F);
      draw->AddCircleFilled(at(i), radius, relevance_color(context.palette, answer, i));
      draw->AddCircle(at(i), radius, widgets::with_alpha(context.palette.faint, 0.5F));
      if (chosen)
        draw->AddCircle(at(i), radius + widgets::em(0.1F), context.palette.text, 0,
                        widgets::em(0.12F));
    }
  if (const std::int32_t query = looked_at(place); query >= 0)
    draw->AddCircle(at(static_cast<std::size_t>(query)), widgets::em(0.65F), context.palette.accent,
                    0, widgets::em(0.14F));
}

inline void query_tooltip(const state::Place& place, const QueryAnswer& answer, std::size_t query) {
  const auto position = place.chunk_info().begin + static_cast<std::int32_t>(query);
  const char* fate = answer.geometry.chosen.empty() ? ""
                     : answer.is_chosen(query)      ? "\nchosen by "
                                                    : "\nnot chosen by ";
  ImGui::SetTooltip("query %s\nS_q %.4f\nlargest attention %.4f%s%s",
                    token_line(place, position).c_str(),
                    static_cast<double>(answer.geometry.relevance[query]),
                    static_cast<double>(answer.geometry.max_attention[query]), fate,
                    *fate != 0 ? answer.chosen_by.c_str() : "");
}

inline void choose_query(DrawContext& context, const state::Place& place, std::size_t query) {
  context.workspace.cursor.change("query", [&](state::Selection& s) {
    s.place.query = place.chunk_info().begin + static_cast<std::int32_t>(query);
  });
}

// The one nearest to the mouse, if it is near at all; -1: none.
template <typename At>
int nearest_to_mouse(std::size_t count, const At& at, float& within) {
  const ImVec2 mouse = ImGui::GetMousePos();
  int found = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const ImVec2 point = at(i);
    const float distance = std::hypot(point.x - mouse.x, point.y - mouse.y);
    if (distance >= within) continue;
    within = distance;
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace kvloupe::panels
