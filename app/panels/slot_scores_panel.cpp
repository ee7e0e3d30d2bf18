// slot_scores: every query slot of QuoKA against every key of a KV head, which slot wins each key that is
// kept, and the score by which the method ranks.
#include "app/panels/map_plot.h"
#include "app/state/questions/how_it_works/slot_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using state::Place;
using state::SlotScoresQuestion;
using Slots = state::Result<SlotScoresQuestion>;
using Shape = widgets::LegendItem::Shape;

constexpr const char* kTitle = "Slot by key scores";

// Greys, so that what is kept stands out in its own colour.
ImU32 shade(const widgets::Palette& palette, double share) {
  return widgets::mix(palette.panel, palette.muted, std::clamp(share, 0.0, 1.0));
}

ImU32 score_color(const widgets::Palette& palette, const Slots& result, float score) {
  if (!std::isfinite(score)) return palette.error;
  const auto [least, most] = result->scores;
  return shade(palette, (score - least) / (most - least));
}

bool wins(const analysis::SlotScores& slots, std::int64_t slot, std::int64_t key) {
  const auto i = static_cast<std::size_t>(key);
  return slots.kept[i] != 0 && slots.winner[i] == slot;
}

// A pixel of several keys shows a kept one that its slot wins before all, else the largest score.
ImU32 pixel_of(const widgets::Palette& palette, const Slots& result,
               std::pair<std::int64_t, std::int64_t> rows,
               std::pair<std::int64_t, std::int64_t> keys) {
  const analysis::SlotScores& slots = result->slots;
  float most = -INFINITY;
  for (std::int64_t slot = rows.first; slot < rows.second; ++slot)
    for (std::int64_t key = std::max<std::int64_t>(0, keys.first); key < keys.second; ++key) {
      if (wins(slots, slot, key)) return palette.hit;
      most = std::max(most, slots.scores.at(slot, key));
    }
  return std::isinf(most) ? palette.panel : score_color(palette, result, most);
}

void fill(const widgets::Palette& palette, const Slots& result, const widgets::MapWindow& window,
          std::vector<ImU32>& pixels) {
  const analysis::SlotScores& slots = result->slots;
  const std::int64_t end = slots.first_key + slots.num_keys();
  widgets::fill_pixels(window, slots.num_slots(), end, pixels, [&](auto rows, auto keys) {
    keys.first -= slots.first_key;
    keys.second -= slots.first_key;
    return pixel_of(palette, result, rows, keys);
  });
}

std::string query_name(const Place& place, const Slots& result, std::int64_t slot) {
  return token_line(place, result->query(place, slot));
}

// "needle: 19 of 22 keys kept; slot 5 scores 15 of these highest."
std::string span_finding(const Place& place, const analysis::SlotScores& slots) {
  const auto span = state::watched_keys(place);
  if (!span) return "";
  int seen = 0, kept = 0;
  std::size_t last = 0;
  std::vector<int> won(static_cast<std::size_t>(slots.num_slots()), 0);
  for (const std::int32_t key :
       span->keys.positions_in(slots.first_key, slots.first_key + slots.num_keys())) {
    const auto i = static_cast<std::size_t>(key - slots.first_key);
    ++seen;
    last = i;
    kept += slots.kept[i];
    won[static_cast<std::size_t>(slots.winner[i])] += slots.kept[i];
  }
  if (seen == 0) return "";
  if (seen == 1)
    return fmt::format(
        " Key {} is {}; slot {} scores it highest ({:.3f}).",
        token_line(place, slots.position(static_cast<std::int64_t>(last))),
        kept > 0 ? "kept" : "not selected", slots.winner[last],
        double{slots.scores.at(slots.winner[last], static_cast<std::int64_t>(last))});
  std::string text =
      fmt::format(" {}: {} of {} keys kept", state::watched_words(place), kept, seen);
  if (const auto best = std::max_element(won.begin(), won.end()); *best > 0)
    text += fmt::format("; slot {} scores {} of these highest", best - won.begin(), *best);
  return text + ".";
}

std::string finding(const Place& place, const Slots& result) {
  const analysis::SlotScores& slots = result->slots;
  if (slots.dense_reason) return "All past keys are kept here; scores decide nothing.";
  const auto best = std::max_element(result->won.begin(), result->won.end());
  const auto slot = best - result->won.begin();
  const auto silent = std::count(result->won.begin(), result->won.end(), 0);
  std::string text = fmt::format(
      "Slot {} ({}{}) scores {} of the {} kept keys highest", slot,
      slots.queries.front().size() > 1 ? fmt::format("of query head {}: ", place.q_head) : "",
      query_name(place, result, slot), *best, result->num_kept);
  if (silent > 0)
    text += fmt::format("; {} of {} slots {} none", silent, slots.num_slots(),
                        silent == 1 ? "wins" : "win");
  return text + "." + span_finding(place, slots);
}

class SlotScoresPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const SlotScoresQuestion question = state::slot_scores_question(context.workspace);
    const Slots result = shown_.ask(context.workspace, question);
    if (!stand_in_ready_ui(context, kTitle, question, result, "Scoring keys slot by slot")) return;
    const Place& place = result.question.place;
    stand_in_head_ui(context, kTitle, place, result->facts, result.question.stand_in,
                     form_chips(result->slots));
    ready_ui(context, result, "");
    if (result->slots.num_keys() == 0) {
      widgets::empty_ui(context.palette, "There are no keys before this chunk.");
      return;
    }
    headline_ui(context, finding(place, result));
    legend(context, result);
    plots_ui(context, result);
  }

 private:
  static std::vector<widgets::Chip> form_chips(const analysis::SlotScores& slots) {
    std::vector<widgets::Chip> chips;
    if (slots.is_one_head)
      chips.push_back({"slots of this head", 0,
                       "group_query_mode=post_agg: each query head has slots of its own. The score "
                       "that ranks is the mean over the heads of the group."});
    else if (!slots.queries.empty() && slots.queries.front().size() > 1)
      chips.push_back({fmt::format("{} heads a slot", slots.queries.front().size()), 0,
                       "A slot joins one query of each query head that shares the KV head. Named "
                       "is the one of the head that you look at."});
    if (slots.takes_mean)
      chips.push_back({"mean over slots", 0, "query_reduce=mean: a key's score is the mean."});
    return chips;
  }

  static void legend(DrawContext& context, const Slots& result) {
    const widgets::Palette& palette = context.palette;
    widgets::color_scale_ui(
        palette, shade, fmt::format("{:.2f}", result->scores.least),
        fmt::format("{:.2f}", result->scores.most),
        result->sink_beyond ? "score in a slot (key 0, the sink, lies above)" : "score in a slot",
        std::min(widgets::em(7), ImGui::GetContentRegionAvail().x / 4));
    beside_ui(widgets::em(1.2F), widgets::em(11));
    widgets::legend_ui(palette, {{"kept, and largest in this slot", palette.hit},
                                 {"kept", palette.hit, Shape::Dot},
                                 {"not selected", palette.muted, Shape::Dot},
                                 {state::watched_keys(result.question.place)
                                      ? state::watched_words(result.question.place)
                                      : "watched key",
                                  palette.text, Shape::Ring},
                                 {"least score kept", palette.text, Shape::Line}});
  }

  void plots_ui(DrawContext& context, const Slots& result) {
    ImGui::Dummy({0, widgets::em(0.9F)});  // for the names of spans above the map
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const ImVec2 gap = ImGui::GetStyle().ItemSpacing;
    // As high as its rows need, and two thirds of the view at most. A small figure has the map alone.
    const float rows = widgets::em(2.0F + 1.5F * static_cast<float>(result->slots.num_slots()));
    const float between = 2 * gap.y + widgets::em(1);
    float map = plot_height(
        context, std::min({0.56F * room.y, rows, room.y - between - plot_height(context, 0)}));
    const float rest = plot_height(context, room.y - map - between);
    const bool ranked = rest > widgets::em(5);
    if (!ranked) map = plot_height(context, room.y);
    const float bars = ranked && room.x > widgets::em(40) ? widgets::em(8) : 0;
    const float width = bars > 0 ? room.x - bars - gap.x : room.x;
    key_range(result);
    const ImVec2 at = ImGui::GetCursorPos();
    if (ImPlot::BeginAlignedPlots("##slots")) {
      map_ui(context, result, {width, map}, !ranked);
      if (ranked) {
        ImGui::Dummy({0, widgets::em(1) - gap.y});
        ranked_ui(context, result, {width, rest});
      }
      ImPlot::EndAlignedPlots();
    }
    if (bars <= 0) return;
    const ImVec2 end = ImGui::GetCursorPos();
    ImGui::SetCursorPos({at.x + width + gap.x, at.y});
    bars_ui(context, result, {bars, map});
    ImGui::SetCursorPos(end);
    ImGui::Dummy({0, 0});
  }

  // Both plots of keys show the same of them, anew where the cell is another one.
  void key_range(const Slots& result) {
    const std::string cell = result.question.place.cell_key() + "|" + result.question.method.key();
    if (cell == cell_) return;
    cell_ = cell;
    keys_ = {0, static_cast<double>(result->slots.first_key + result->slots.num_keys())};
    rows_ = {0, static_cast<double>(result->slots.num_slots())};
  }

  void map_ui(DrawContext& context, const Slots& result, ImVec2 size, bool with_keys) {
    const analysis::SlotScores& slots = result->slots;
    const Place& place = result.question.place;
    std::vector<std::string> names;
    for (std::int64_t slot = 0; slot < slots.num_slots(); ++slot)
      names.push_back(fmt::format("slot {}: {}", slot, query_name(place, result, slot)));
    // Where not all fit, every other one is named: the one that wins most among them.
    const auto most = std::max_element(result->won.begin(), result->won.end());
    const bool tight = size.y < 1.4F * ImGui::GetFontSize() * static_cast<float>(slots.num_slots());
    const widgets::FontScope font(tight ? widgets::Type::Caption : widgets::Type::Text);
    MapPlotSpec spec;
    spec.id = "##map";
    const char* label = slots.num_slots() == 1 ? "query" : "query of each slot";
    if (!slots.queries.empty() && slots.queries.front().size() > 1)
      label = "query of each slot in this head";
    spec.y_label = fitting(label, "query", size.y);
    spec.rows = static_cast<double>(slots.num_slots());
    spec.cols = static_cast<double>(slots.first_key + slots.num_keys());
    spec.size = size;
    spec.show_x_ticks = with_keys;
    if (with_keys) spec.x_label = "key";
    spec.row_ticks = true;
    spec.row_names = &names;
    spec.named_row = most == result->won.end() ? 0 : most - result->won.begin();
    spec.zoom_rows = false;
    spec.content_key = result.key;
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill(context.palette, result, window, pixels);
    };
    spec.x_range = &keys_;
    spec.y_range = &rows_;
    const auto hit =
        map_plot_ui(context, spec, texture_, [&] { span_marks_ui(context, place, true); });
    if (!hit) return;
    const auto slot = static_cast<std::int64_t>(hit->row);
    const std::int64_t key = static_cast<std::int64_t>(hit->col) - slots.first_key;
    if (key >= 0) point_at(context, result, slot, key, hit->clicked);
  }

  static void point_at(DrawContext& context, const Slots& result, std::int64_t slot,
                       std::int64_t key, bool clicked) {
    const analysis::SlotScores& slots = result->slots;
    const Place& place = result.question.place;
    const auto i = static_cast<std::size_t>(key);
    const std::int32_t position = slots.position(key);
    context.workspace.pointer.at(place, position);
    widgets::tooltip("slot %d: query %s\nkey %s\nscore in this slot %.4f\nscore %.4f, slot %d, %s",
                     static_cast<int>(slot), query_name(place, result, slot).c_str(),
                     token_line(place, position).c_str(), double{slots.scores.at(slot, key)},
                     double{slots.score[i]}, slots.winner[i],
                     slots.kept[i] != 0 ? "kept" : "not selected");
    if (!clicked || result.stale) return;
    const std::int32_t query = result->query(place, slot);
    context.workspace.cursor.change("slot", [&](state::Selection& s) {
      s.place.chunk = place.chunk;
      s.place.query = query;
      s.place.keys = {position, position + 1};
    });
  }

  // How many of the kept keys each slot wins, beside its row.
  void bars_ui(DrawContext& context, const Slots& result, ImVec2 size) const {
    constexpr ImPlotAxisFlags kAxis = ImPlotAxisFlags_NoDecorations;
    if (!ImPlot::BeginPlot("##won", size, ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs)) return;
    ImPlot::SetupAxes(nullptr, nullptr, kAxis, kAxis | ImPlotAxisFlags_Invert);
    const std::int32_t most = *std::max_element(result->won.begin(), result->won.end());
    ImPlot::SetupAxesLimits(0, 1.35 * std::max(most, 1), rows_.Min, rows_.Max, ImPlotCond_Always);
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const widgets::FontScope small(widgets::Type::Caption);
    const ImVec2 corner = ImPlot::GetPlotPos();
    draw->AddText({corner.x, corner.y - ImGui::GetTextLineHeight() - widgets::em(0.15F)},
                  context.palette.muted, "kept keys won");
    ImPlot::PushPlotClipRect();
    for (std::size_t slot = 0; slot < result->won.size(); ++slot) {
      const auto row = static_cast<double>(slot);
      const ImVec2 from = ImPlot::PlotToPixels(0, row + 0.18);
      const ImVec2 to = ImPlot::PlotToPixels(result->won[slot], row + 0.82);
      draw->AddRectFilled(from, to, context.palette.hit);
      const std::string number = std::to_string(result->won[slot]);
      if (to.y - from.y > 0.6F * ImGui::GetTextLineHeight())
        draw->AddText({to.x + widgets::em(0.3F), (from.y + to.y - ImGui::GetTextLineHeight()) / 2},
                      context.palette.muted, number.c_str());
    }
    ImPlot::PopPlotClipRect();
    ImPlot::EndPlot();
  }

  // What the method ranks by: the largest score of each key over the slots, or their mean.
  void ranked_ui(DrawContext& context, const Slots& result, ImVec2 size) {
    const analysis::SlotScores& slots = result->slots;
    const Place& place = result.question.place;
    if (!ImPlot::BeginPlot("##score", size,
                           ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMenus |
                               ImPlotFlags_NoMouseText | ImPlotFlags_NoBoxSelect))
      return;
    ImPlot::SetupAxes(
        "key",
        fitting(slots.takes_mean ? "mean over slots" : "largest over slots", "score", size.y),
        ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0,
                                       static_cast<double>(slots.first_key + slots.num_keys()));
    ImPlot::SetupAxisLinks(ImAxis_X1, &keys_.Min, &keys_.Max);
    const double low = result->ranked.least, high = result->ranked.most;
    const double pad = std::max(0.08 * (high - low), 1e-4);
    ImPlot::SetupAxisLimits(ImAxis_Y1, low - pad, high + pad, ImPlotCond_Always);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    dots_ui(context, result);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) {
      const auto key =
          static_cast<std::int64_t>(std::floor(ImPlot::GetPlotMousePos().x)) - slots.first_key;
      if (key >= 0 && key < slots.num_keys())
        point_at(context, result, slots.winner[static_cast<std::size_t>(key)], key, plot_clicked());
    }
    span_marks_ui(context, place, true);
    ImPlot::EndPlot();
  }

  static void dots_ui(DrawContext& context, const Slots& result) {
    const analysis::SlotScores& slots = result->slots;
    const widgets::Palette& palette = context.palette;
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const auto span = state::watched_keys(result.question.place);
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const float radius = widgets::em(0.19F);
    // Of very many keys that lie on each other, the dots are the highest and the lowest of each pixel.
    const double per_pixel = limits.X.Size() / std::max(1.0F, ImPlot::GetPlotSize().x);
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(per_pixel / 2));
    const auto key_at = [&](double position) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(position) - slots.first_key, 0,
                                      slots.num_keys());
    };
    const auto dot = [&](std::int64_t key) {
      const auto i = static_cast<std::size_t>(key);
      // The sink may lie beyond the others by far: then at the edge.
      const double score = std::clamp(double{slots.score[i]}, limits.Y.Min, limits.Y.Max);
      const ImVec2 at = ImPlot::PlotToPixels(slots.position(key) + 0.5, score);
      draw->AddCircleFilled(
          at, radius, slots.kept[i] != 0 ? palette.hit : widgets::with_alpha(palette.muted, 0.6F));
      return at;
    };
    for (const bool kept : {false, true})
      for (std::int64_t first = key_at(limits.X.Min); first < key_at(limits.X.Max + 1);
           first += step) {
        std::int64_t low = -1, high = -1;
        for (std::int64_t key = first; key < std::min(first + step, slots.num_keys()); ++key) {
          const auto i = static_cast<std::size_t>(key);
          if ((slots.kept[i] != 0) != kept) continue;
          if (low < 0 || slots.score[i] < slots.score[static_cast<std::size_t>(low)]) low = key;
          if (high < 0 || slots.score[i] > slots.score[static_cast<std::size_t>(high)]) high = key;
        }
        if (low >= 0) dot(low);
        if (high != low) dot(high);
      }
    if (span)
      for (const std::int32_t key :
           span->keys.positions_in(slots.first_key, slots.first_key + slots.num_keys())) {
        const ImVec2 at = dot(key - slots.first_key);
        draw->AddCircle(at, radius + widgets::em(0.08F), palette.text, 0, widgets::em(0.08F));
      }
    if (!slots.cut) return;
    draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, double{*slots.cut}),
                  ImPlot::PlotToPixels(limits.X.Max, double{*slots.cut}),
                  widgets::with_alpha(palette.text, 0.55F), widgets::em(0.08F));
  }

  state::LastAnswer<SlotScoresQuestion> shown_;
  widgets::MapTexture texture_;
  std::string cell_;
  ImPlotRange keys_{0, 1}, rows_{0, 1};
};

}  // namespace

std::unique_ptr<Panel> make_slot_scores_panel() { return std::make_unique<SlotScoresPanel>(); }

}  // namespace kvloupe::panels
