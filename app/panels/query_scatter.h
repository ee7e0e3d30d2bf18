// What the two views of a head's queries share.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/labels.h"
#include "app/state/questions/how_it_works/query_geometry.h"

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
  return widgets::query_color(palette, share);
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
  else if (answer.votes_after)
    chips.push_back({fmt::format("{} of {} {} after the chunk", answer.num_chosen, queries,
                                 queries == 1 ? "query votes" : "queries vote"),
                     0,
                     fmt::format("The queries by which {} evicts after this chunk. What it keeps "
                                 "in the chunk was decided before them.",
                                 by)});
  else
    chips.push_back({fmt::format("{} of {} {} chosen by {}", answer.num_chosen, queries,
                                 queries == 1 ? "query" : "queries", by),
                     0, fmt::format("The queries that {} scores keys with.", by)});
  return chips;
}

// Of the queries of the question, how many there are and how many are chosen; none where the trace has no
// question in the chunk.
struct Asking {
  std::size_t queries = 0, chosen = 0;
};
inline Asking asking_in(const state::Place& place, const QueryAnswer& answer) {
  Asking asking;
  if (!state::asks_question(place)) return asking;
  const std::int32_t begin = place.chunk_info().begin;
  for (std::size_t i = 0; i < answer.num_queries(); ++i) {
    if (!state::in_question(place, begin + static_cast<std::int32_t>(i))) continue;
    ++asking.queries;
    asking.chosen += answer.is_chosen(i);
  }
  return asking;
}

// What the chosen queries are, and whether QuoKA's premise holds (chip r).
inline std::string query_finding(const state::Place& place, const QueryAnswer& answer) {
  std::string text;
  const Asking asking = asking_in(place, answer);
  if (!answer.geometry.chosen.empty() && asking.queries > 0)
    text = answer.votes_after
               ? fmt::format(
                     "{} evicts after this chunk by {} queries, {} of them of the "
                     "question. What it keeps in the chunk was decided before. ",
                     answer.chosen_by, answer.num_chosen, asking.chosen)
               : fmt::format(
                     "{} of the {} queries that {} chose belong to the question, which "
                     "has {} of the chunk's {}. ",
                     asking.chosen, answer.num_chosen, answer.chosen_by, asking.queries,
                     answer.num_queries());
  const double r = answer.geometry.pearson_r;
  if (std::isnan(r)) return text;
  constexpr double kClear = 0.5, kNone = 0.1;
  text += fmt::format("Queries far from the mean query {} (r = {:.2f})",
                      r > kClear  ? "attend more strongly to single keys"
                      : r > kNone ? "attend a little more strongly to single keys"
                                  : "attend no more strongly than others",
                      r);
  // Of another method it would read as a judgement of that.
  if (!answer.chosen_by.empty() && answer.chosen_by != "quoka") return text + ".";
  return text + fmt::format(": QuoKA's premise {} in this head.", r > kClear  ? "holds"
                                                                  : r > kNone ? "is weak"
                                                                              : "does not hold");
}

// How much the queries attend to the watched keys; empty where none are, or where it is not known yet.
using Wanted = state::Result<state::KeyWantedQuestion>;
inline Wanted wanted_by(DrawContext& context, const state::Place& place) {
  return context.workspace.ask(state::KeyWantedQuestion{place});
}

inline std::string name_of_keys(const state::Place& place) {
  return place.keys.size() == 1 ? fmt::format("key {}", token_line(place, place.keys.first()))
                                : state::watched_words(place);
}

// "query chosen by quoka", for a legend.
inline std::string words_of_chosen(const QueryAnswer& answer) {
  if (answer.geometry.chosen.empty() || answer.chosen_by.empty()) return "";
  return answer.votes_after ? "query that votes after the chunk"
                            : "query chosen by " + answer.chosen_by;
}

inline bool is_looked_at(const state::Place& place, std::int32_t position) {
  return position == place.query || place.queries.contains(position);
}

// What the rings of looked_at_ui() mean, of which there are `count`.
inline void add_looked_at(const widgets::Palette& palette, std::size_t count,
                          std::vector<widgets::LegendItem>& items) {
  if (count > 0)
    items.push_back({count == 1 ? "selected query" : fmt::format("{} selected queries", count),
                     palette.accent, widgets::LegendItem::Shape::Ring});
}

// What the rings and sizes mean; `chosen` are the legend's words for ringed queries, empty where none are, `looked`
// is the number of those that are selected.
inline void add_rings(const widgets::Palette& palette, const state::Place& place,
                      const std::string& chosen, std::size_t looked, const Wanted& wanted,
                      std::vector<widgets::LegendItem>& items) {
  constexpr auto kRing = widgets::LegendItem::Shape::Ring;
  if (!chosen.empty()) items.push_back({chosen, palette.text, kRing});
  if (state::asks_question(place))
    items.push_back({"query of the question", palette.muted, widgets::LegendItem::Shape::Diamond});
  add_looked_at(palette, looked, items);
  if (!wanted) return;
  std::string words = "larger: attends more to " + name_of_keys(place);
  if (!widgets::shares_legend())
    words += fmt::format(" (at most {})", state::brief_share_text(wanted->most));
  items.push_back({words, palette.muted, widgets::LegendItem::Shape::Dot});
}

// The radius of a query's dot: with keys watched its area says how much it attends to them.
inline float query_radius(const Wanted& wanted, std::size_t query, bool chosen) {
  // Of another chunk it says nothing: its answer may be older.
  if (!wanted || query >= wanted->attention.size()) return widgets::em(chosen ? 0.36F : 0.27F);
  return widgets::em(0.16F + 0.7F * std::sqrt(static_cast<float>(wanted->part(query))));
}

// A query's dot: ringed where the method chose it, a diamond where it is of the question.
struct QueryDot {
  ImVec2 at;
  float radius = 0;
  ImU32 color = 0;
  bool chosen = false, asks = false;
  ImU32 ring = 0, outer_ring = 0;  // 0: in the colour of text; none
};
inline void query_dot_ui(ImDrawList* draw, const widgets::Palette& palette, const QueryDot& dot) {
  const float line = widgets::em(0.12F);
  // A diamond of the same area as the dot.
  const int corners = dot.asks ? 4 : 0;
  const float radius = dot.asks ? 1.25F * dot.radius : dot.radius;
  draw->AddCircleFilled(dot.at, radius, dot.color, corners);
  draw->AddCircle(dot.at, radius, widgets::with_alpha(palette.faint, 0.5F), corners);
  if (dot.chosen)
    draw->AddCircle(dot.at, radius + widgets::em(0.1F), dot.ring != 0 ? dot.ring : palette.text,
                    corners, line);
  if (dot.outer_ring != 0)
    draw->AddCircle(dot.at, radius + widgets::em(dot.chosen ? 0.26F : 0.1F), dot.outer_ring,
                    corners, line);
}

// A query that the user looks at, alone or among others: then those have smaller rings.
inline void looked_at_ui(ImDrawList* draw, const widgets::Palette& palette, ImVec2 at, bool first) {
  draw->AddCircle(at, widgets::em(first ? 0.65F : 0.4F), palette.accent, 0,
                  widgets::em(first ? 0.14F : 0.1F));
}

struct Circle {
  ImVec2 at;
  float radius = 0;
};

// The point of the rectangle that is nearest to `at`.
inline ImVec2 nearest_of(ImVec2 at, ImVec2 begin, ImVec2 end) {
  return {std::clamp(at.x, begin.x, end.x), std::clamp(at.y, begin.y, end.y)};
}
// Of the line from one point to the other.
inline float distance_to_line(ImVec2 at, ImVec2 from, ImVec2 to) {
  const ImVec2 along(to.x - from.x, to.y - from.y);
  const float square = along.x * along.x + along.y * along.y;
  const float part =
      square > 0
          ? std::clamp(((at.x - from.x) * along.x + (at.y - from.y) * along.y) / square, 0.0F, 1.0F)
          : 0;
  return std::hypot(from.x + part * along.x - at.x, from.y + part * along.y - at.y);
}

// The upper left corner of words about the dot `at`, `least` away from it or up to `most`: within low to
// high, where they lie over the fewest of the dots, the line from their dot to them crosses the fewest, and
// then as near as can be. Other words stand in `clear`: over these only where every place is.
inline ImVec2 place_of_words(ImVec2 at, float least, float most, ImVec2 size, ImVec2 low,
                             ImVec2 high, const std::vector<Circle>& dots,
                             const std::vector<Circle>& clear = {}) {
  std::vector<ImVec2> places;
  for (float out = least; out <= most; out += widgets::em(1.5F))
    places.insert(places.end(), {{at.x + out, at.y - size.y / 2},
                                 {at.x - out - size.x, at.y - size.y / 2},
                                 {at.x - size.x / 2, at.y - out - size.y},
                                 {at.x - size.x / 2, at.y + out},
                                 {at.x + out, at.y - out - size.y},
                                 {at.x + out, at.y + out},
                                 {at.x - out - size.x, at.y - out - size.y},
                                 {at.x - out - size.x, at.y + out}});
  for (ImVec2& place : places)  // in a narrow plot words about a dot in the middle would be cut
    place.x = std::clamp(place.x, low.x, std::max(low.x, high.x - size.x));
  constexpr std::size_t kOutside = 100000, kUnread = 1000,
                        kHidden = 3;  // a dot under words is worse than one crossed
  const auto cost = [&](ImVec2 from) {
    const ImVec2 to(from.x + size.x, from.y + size.y);
    std::size_t sum = 0;
    if (from.x < low.x || from.y < low.y || to.x > high.x || to.y > high.y) sum = kOutside;
    const float near = widgets::em(0.2F);
    const ImVec2 end = nearest_of(at, from, to);
    const auto hides = [&](const Circle& circle) {
      const ImVec2 close = nearest_of(circle.at, from, to);
      return std::hypot(close.x - circle.at.x, close.y - circle.at.y) < circle.radius + near;
    };
    const auto crosses = [&](const Circle& circle) {
      return distance_to_line(circle.at, at, end) < circle.radius;
    };
    for (const Circle& words : clear) sum += hides(words) ? kUnread : crosses(words) ? kHidden : 0;
    for (const Circle& dot : dots) {
      const bool own = dot.at.x == at.x && dot.at.y == at.y;
      sum += hides(dot) ? (own ? kUnread : kHidden) : !own && crosses(dot) ? 1 : 0;
    }
    return sum;
  };
  std::vector<std::size_t> costs;
  for (const ImVec2& place : places) costs.push_back(cost(place));
  return places[static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) -
                                         costs.begin())];
}

// Names the query that wants the watched keys most, beside its dot, one of `dots`; in a plot from low
// to high, of which the titles stand in `clear`.
inline void most_wanted_ui(ImDrawList* draw, const widgets::Palette& palette,
                           const state::Place& place, const Wanted& wanted,
                           const std::vector<Circle>& dots, ImVec2 at, ImVec2 low, ImVec2 high,
                           const std::vector<Circle>& clear = {}) {
  if (!wanted || wanted->most <= 0) return;
  const std::int32_t position =
      place.chunk_info().begin + static_cast<std::int32_t>(wanted->most_of);
  std::string name = token_line(place, position) + "  " + state::brief_share_text(wanted->most);
  const std::string full = name + " to " + name_of_keys(place);
  if (ImGui::CalcTextSize(full.c_str()).x < (high.x - low.x) * 0.5F) name = full;
  const float out = query_radius(wanted, wanted->most_of, true) + widgets::em(0.5F);
  const ImVec2 size = ImGui::CalcTextSize(name.c_str());
  const ImVec2 from = place_of_words(at, out, out + widgets::em(12), size, low, high, dots, clear);
  const ImVec2 begin(from.x - widgets::em(0.2F), from.y),
      end(from.x + size.x + widgets::em(0.2F), from.y + size.y);
  draw->AddLine(at, nearest_of(at, begin, end), palette.text, widgets::em(0.12F));
  draw->AddRectFilled(begin, end, widgets::with_alpha(palette.panel, 0.8F), widgets::em(0.2F));
  draw->AddText(from, palette.text, name.c_str());
}

// Dots of the chunk's queries, the chosen ones on top; the one that the user looks at is marked, and the
// one that wants the chosen keys most is named.
template <typename At>
void queries_ui(DrawContext& context, const state::Place& place, const QueryAnswer& answer,
                const Wanted& wanted, const At& at) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const std::int32_t begin = place.chunk_info().begin;
  for (const bool chosen : {false, true})
    for (std::size_t i = 0; i < answer.num_queries(); ++i)
      if (answer.is_chosen(i) == chosen)
        query_dot_ui(
            draw, context.palette,
            {at(i), query_radius(wanted, i, chosen), relevance_color(context.palette, answer, i),
             chosen, state::in_question(place, begin + static_cast<std::int32_t>(i))});
  for (const std::int32_t query : place.looked_at())
    looked_at_ui(draw, context.palette, at(static_cast<std::size_t>(query)),
                 begin + query == place.query);
  if (!wanted) return;
  // Of a long chunk some of them: all of them would take long in each frame.
  constexpr std::size_t kMostDots = 2000;
  std::vector<Circle> dots;
  for (std::size_t i = 0; i < answer.num_queries(); i += 1 + answer.num_queries() / kMostDots)
    dots.push_back({at(i), query_radius(wanted, i, answer.is_chosen(i))});
  const ImVec2 low = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  most_wanted_ui(draw, context.palette, place, wanted, dots, at(wanted->most_of), low,
                 {low.x + size.x, low.y + size.y});
}

inline void query_tooltip(const state::Place& place, const QueryAnswer& answer,
                          const Wanted& wanted, std::size_t query) {
  const auto position = place.chunk_info().begin + static_cast<std::int32_t>(query);
  const bool chosen = answer.is_chosen(query);
  const std::string fate = answer.geometry.chosen.empty() ? ""
                           : answer.votes_after
                               ? (chosen ? "\nvotes after the chunk" : "\ndoes not vote")
                               : (chosen ? "\nchosen by " : "\nnot chosen by ") + answer.chosen_by;
  const std::string on_keys =
      wanted ? fmt::format("\n{:.3g} % on {}", 100 * wanted->attention[query], name_of_keys(place))
             : std::string();
  widgets::tooltip(
      "query %s\nS_q %.4f\nlargest attention %.4f%s%s", token_line(place, position).c_str(),
      static_cast<double>(answer.geometry.relevance[query]),
      static_cast<double>(answer.geometry.max_attention[query]), fate.c_str(), on_keys.c_str());
}

inline void point_at_query(DrawContext& context, const state::Place& place, std::int32_t position) {
  state::Place there = place;
  there.chunk = place.info().chunk_of_token(position);
  there.query = position;
  context.workspace.pointer.at({.place = there, .query = position});
}

inline void choose_query(DrawContext& context, const state::Place& place, std::int32_t position) {
  context.workspace.cursor.change("query", [&](state::Selection& s) {
    s.place.chunk = place.info().chunk_of_token(position);
    s.place.query = position;
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
