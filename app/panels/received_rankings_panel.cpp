// received_rankings: the past keys ranked by the mean and by the largest attention that a window of
// queries gives them, which of them are global or query-specific (received_rankings.h has the rule),
// and which the method selected.
#include "app/panels/map_plot.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::KeyKind;
using analysis::ReceivedRankings;

// Of the keys that are neither global nor query-specific the scatter draws about so many, evenly
// over the text: a frame must not wait for a hundred thousand dots.
constexpr std::size_t kOthersDrawn = 2000;
std::size_t other_step(const ReceivedRankings& rankings) {
  const auto others = static_cast<std::size_t>(
      std::count(rankings.kind.begin(), rankings.kind.end(), KeyKind::Other));
  return std::max<std::size_t>(1, (others + kOthersDrawn - 1) / kOthersDrawn);
}

// Strips on the y axis of the map.
struct Strip {
  const char* title;
  double begin, end;
};
enum StripIndex { kByMean, kByMax, kKinds, kSelected };
constexpr std::array<Strip, 4> kStrips{{{"rank by mean", 0.25, 1.25},
                                        {"rank by maximum", 1.75, 2.75},
                                        {"global, query-specific", 3.25, 3.85},
                                        {"selected", 4.35, 4.95}}};
constexpr double kStripsHeight = 5.2;

struct WindowChoice {
  int window;
  const char* text;
};
constexpr std::array<WindowChoice, 6> kWindows{{{0, "the chunk"},
                                                {1, "its last query"},
                                                {16, "its last 16"},
                                                {64, "its last 64"},
                                                {256, "the last 256"},
                                                {1024, "the last 1,024"}}};

int strip_at(double y) {
  for (std::size_t i = 0; i < kStrips.size(); ++i)
    if (y >= kStrips[i].begin && y < kStrips[i].end) return static_cast<int>(i);
  return -1;
}

// 1 for the best rank, 0 for the last; half way at the square root of the number of keys, so that
// the few best stand out of thousands.
double brightness(std::int32_t rank, std::int64_t num_keys) {
  return 1 - std::log(1.0 + rank) / std::log(1.0 + static_cast<double>(num_keys));
}

struct Shown {
  const ReceivedRankings& rankings;
  std::vector<std::uint8_t> selected;  // [num_keys]; empty without a method
};

ImU32 pixel_color(const widgets::Palette& palette, const Shown& shown, int strip,
                  std::pair<std::int64_t, std::int64_t> keys) {
  const ReceivedRankings& r = shown.rankings;
  if (strip == kByMean || strip == kByMax) {
    const auto& ranks = strip == kByMean ? r.mean_rank : r.max_rank;
    const auto best = *std::min_element(ranks.begin() + keys.first, ranks.begin() + keys.second);
    return widgets::sequential_color(palette, brightness(best, r.num_keys()));
  }
  bool kept = false, specific = false, global = false, lost = false;
  for (auto j = static_cast<std::size_t>(keys.first); j < static_cast<std::size_t>(keys.second);
       ++j) {
    const bool here = !shown.selected.empty() && shown.selected[j] != 0;
    kept |= here;
    global |= r.kind[j] == KeyKind::Global;
    specific |= r.kind[j] == KeyKind::QuerySpecific;
    lost |= r.kind[j] != KeyKind::Other && !here;
  }
  if (strip == kKinds)
    return widgets::color_of(palette, specific ? KeyKind::QuerySpecific
                                      : global ? KeyKind::Global
                                               : KeyKind::Other);
  if (shown.selected.empty()) return palette.panel;
  return lost ? palette.miss : kept ? palette.hit : palette.dropped;
}

void fill_strips(const widgets::Palette& palette, const Shown& shown,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const std::int64_t keys = shown.rankings.num_keys();
  int previous = -2;
  for (int y = 0; y < window.height; ++y) {
    const double at =
        window.row_begin + (y + 0.5) / window.height * (window.row_end - window.row_begin);
    const int strip = strip_at(at);
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    if (y > 0 && strip == previous) {
      std::copy(line - window.width, line, line);
      continue;
    }
    previous = strip;
    for (int x = 0; x < window.width; ++x)
      line[x] = strip < 0
                    ? palette.panel
                    : pixel_color(palette, shown, strip,
                                  widgets::MapTexture::cells_of_pixel(
                                      window.col_begin, window.col_end, window.width, x, keys));
  }
}

class ReceivedRankingsPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto slot = workspace.selection().shown;
    const bool method = !workspace.selection().choice(slot).empty();
    const auto result = workspace.received_rankings();
    widgets::figure_head_ui(context.palette, context.figure, "Received rankings",
                            method ? method_caption(workspace, slot) : "", place_caption(workspace),
                            method ? method_chips(context, slot) : trace_chips(context));
    window_ui(context);
    if (!ready_ui(context, result, "Ranking keys by received attention")) return;
    const Shown shown{*result, selected(workspace, *result)};
    finding_ui(context, shown);
    legend_ui(context, shown);
    ImGui::Dummy({0, widgets::em(0.6F)});
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float strips = std::max(widgets::em(13), room.y * 0.5F);
    strips_ui(context, shown, result.key, {room.x, strips});
    scatter_ui(context, shown,
               {room.x, std::max(widgets::em(12), room.y - strips - widgets::em(0.5F))});
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"key", "mean", "max", "mean_rank", "max_rank", "kind", "selected"}, {}};
    const auto result = workspace.received_rankings();
    if (!result) return table;
    const auto kept = selected(workspace, *result);
    for (std::size_t j = 0; j < result->mean.size(); ++j)
      table.rows.push_back(
          {cell(static_cast<std::int64_t>(j)), cell(double{result->mean[j]}),
           cell(double{result->max[j]}), cell(std::int64_t{result->mean_rank[j]} + 1),
           cell(std::int64_t{result->max_rank[j]} + 1), analysis::name_of(result->kind[j]),
           kept.empty()   ? ""
           : kept[j] != 0 ? "1"
                          : "0"});
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    if (!workspace.selection().choice(workspace.selection().shown).empty())
      workspace.replay(workspace.selection().shown);  // what is drawn on top
    return problem_of(workspace.received_rankings());
  }

 private:
  // Whether the shown method selected each key; nothing while that is not known.
  static std::vector<std::uint8_t> selected(state::Workspace& workspace,
                                            const ReceivedRankings& rankings) {
    const auto& s = workspace.selection();
    if (s.choice(s.shown).empty()) return {};
    const auto replay = workspace.replay(s.shown);
    if (!replay) return {};
    const replay::ReplayCell* cell = replay->find(s.layer, s.chunk);
    if (cell == nullptr) return {};
    std::vector<std::uint8_t> kept(static_cast<std::size_t>(rankings.num_keys()), 0);
    const auto row = static_cast<std::size_t>(workspace.row_of(*replay));
    if (row >= cell->rows.size()) return {};
    for (const std::int32_t position : cell->rows[row].positions)
      if (position < rankings.num_keys()) kept[static_cast<std::size_t>(position)] = 1;
    return kept;
  }

  static analysis::KindCount count(const Shown& shown, KeyKind kind) {
    std::vector<std::int32_t> positions;
    for (std::size_t j = 0; j < shown.selected.size(); ++j)
      if (shown.selected[j] != 0) positions.push_back(static_cast<std::int32_t>(j));
    return analysis::count_kind(shown.rankings, kind, positions);
  }

  static void window_ui(DrawContext& context) {
    if (context.figure) return;
    auto& workspace = context.workspace;
    const int now = workspace.selection().window;
    std::string text = fmt::format("the last {}", format_count(now));
    for (const WindowChoice& choice : kWindows)
      if (choice.window == now) text = choice.text;
    ImGui::SetNextItemWidth(widgets::em(11));
    if (!ImGui::BeginCombo("queries that rank", text.c_str())) return;
    for (const WindowChoice& choice : kWindows)
      if (ImGui::Selectable(choice.text, choice.window == now))
        workspace.change("window", [&](state::Selection& s) { s.window = choice.window; });
    ImGui::EndCombo();
  }

  static void finding_ui(DrawContext& context, const Shown& shown) {
    const ReceivedRankings& r = shown.rankings;
    const auto global = count(shown, KeyKind::Global);
    const auto specific = count(shown, KeyKind::QuerySpecific);
    std::string text = fmt::format(
        "{} keys by the attention of queries {} to {} and query heads {} to {}: {} are global, {} "
        "query-specific.",
        format_count(r.num_keys()), format_count(r.query_begin), format_count(r.query_end - 1),
        r.first_q_head, r.first_q_head + r.num_q_heads - 1, format_count(global.keys),
        format_count(specific.keys));
    if (!shown.selected.empty())
      text +=
          fmt::format(" The method selected {} of the global and {} of the query-specific ones.",
                      share(global), share(specific));
    const widgets::FontScope strong(widgets::fonts().strong, context.figure ? 1.1F : 1.0F);
    widgets::text_wrapped(context.palette.text, text);
  }

  static std::string share(const analysis::KindCount& count) {
    if (count.keys == 0) return "none";
    return percent(static_cast<double>(count.selected) / static_cast<double>(count.keys));
  }

  static void legend_ui(DrawContext& context, const Shown& shown) {
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "last", "first", "rank",
                            widgets::em(6));
    ImGui::SameLine(0, widgets::em(1));
    std::vector<widgets::LegendItem> items;
    for (const KeyKind kind : {KeyKind::Global, KeyKind::QuerySpecific})
      items.push_back({widgets::label_of(kind), widgets::color_of(context.palette, kind)});
    if (!shown.selected.empty()) {
      items.push_back({"selected", context.palette.hit});
      items.push_back({"global or query-specific, not selected", context.palette.miss});
    }
    widgets::legend_ui(context.palette, items);
    std::string text =
        fmt::format("high: among the {} best ({} of the keys)", format_count(shown.rankings.top),
                    percent(ReceivedRankings::kTopShare));
    if (const std::size_t step = other_step(shown.rankings); step > 1)
      text += fmt::format("; below, one in {} of the other keys is drawn", step);
    widgets::text_colored(context.palette.muted, text);
  }

  void strips_ui(DrawContext& context, const Shown& shown, const std::string& key, ImVec2 size) {
    const auto keys = static_cast<double>(shown.rankings.num_keys());
    if (num_keys_ != keys) {
      num_keys_ = keys;
      x_range_ = {0, keys};
      y_range_ = {0, kStripsHeight};
    }
    std::size_t hash = 1469598103934665603ULL;
    for (const std::uint8_t kept : shown.selected) hash = (hash ^ kept) * 1099511628211ULL;
    MapPlotSpec spec;
    spec.id = "##received";
    spec.x_label = "key (token position)";
    spec.rows = kStripsHeight;
    spec.cols = keys;
    spec.size = size;
    spec.show_y_ticks = false;
    spec.content_key = fmt::format("{}|{}|{}|{}", key, shown.selected.size(), hash,
                                   static_cast<int>(context.palette.kind));
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_strips(context.palette, shown, window, pixels);
    };
    spec.x_range = &x_range_;
    spec.y_range = &y_range_;
    const auto hit = map_plot_ui(context, spec, texture_, [&] {
      titles_ui(context, shown);
      span_marks_ui(context, true);
    });
    if (hit) point_at(context, shown, *hit);
  }

  static void titles_ui(DrawContext& context, const Shown& shown) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const double left = ImPlot::GetPlotLimits().X.Min;
    const widgets::FontScope small(widgets::fonts().strong, 0.85F);
    for (std::size_t i = 0; i < kStrips.size(); ++i) {
      if (i == kSelected && shown.selected.empty()) continue;
      const ImVec2 corner = ImPlot::PlotToPixels(left, kStrips[i].begin);
      draw->AddText({corner.x + widgets::em(0.3F), corner.y - ImGui::GetTextLineHeight()},
                    context.palette.muted, kStrips[i].title);
    }
  }

  static void point_at(DrawContext& context, const Shown& shown, const MapPlotHit& hit) {
    const auto key = static_cast<std::int32_t>(hit.col);
    if (hit.clicked) context.workspace.set_key_span(key, key + 1);
    if (!ImGui::BeginTooltip()) return;
    key_ui(context, shown, key);
    ImGui::EndTooltip();
  }

  static void key_ui(DrawContext& context, const Shown& shown, std::int32_t key) {
    const ReceivedRankings& r = shown.rankings;
    const auto j = static_cast<std::size_t>(key);
    ImGui::Text("key %s", token_line(context.workspace, key).c_str());
    ImGui::Text("mean %.3g, rank %d", static_cast<double>(r.mean[j]), r.mean_rank[j] + 1);
    ImGui::Text("maximum %.3g, rank %d", static_cast<double>(r.max[j]), r.max_rank[j] + 1);
    if (r.kind[j] != KeyKind::Other)
      widgets::legend_ui(context.palette, {{widgets::label_of(r.kind[j]),
                                            widgets::color_of(context.palette, r.kind[j])}});
    if (!shown.selected.empty())
      ImGui::TextUnformatted(shown.selected[j] != 0 ? "selected" : "not selected");
  }

  // Mean against maximum: global keys to the right, query-specific ones above the rest.
  static void scatter_ui(DrawContext& context, const Shown& shown, ImVec2 size) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    if (!ImPlot::BeginPlot("##mean and max", size, kFlags)) return;
    const ReceivedRankings& r = shown.rankings;
    constexpr double kLeast = 1e-7;
    const auto positive = [&](float value) { return std::max(kLeast, static_cast<double>(value)); };
    ImPlot::SetupAxes("mean attention received (dot: selected, ring: not)",
                      "largest attention received", ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    const float top_mean = *std::max_element(r.mean.begin(), r.mean.end());
    ImPlot::SetupAxesLimits(kLeast, 2 * positive(top_mean), kLeast, 2, ImPlotCond_Always);
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    const float radius = widgets::em(0.17F);
    const std::size_t step = other_step(r);
    std::size_t others = 0;
    for (const KeyKind kind : {KeyKind::Other, KeyKind::Global, KeyKind::QuerySpecific})
      for (std::size_t j = 0; j < r.mean.size(); ++j) {
        if (r.kind[j] != kind) continue;
        if (kind == KeyKind::Other && others++ % step != 0) continue;
        const ImVec2 at = ImPlot::PlotToPixels(positive(r.mean[j]), positive(r.max[j]));
        const ImU32 color = kind == KeyKind::Other
                                ? widgets::with_alpha(context.palette.muted, 0.45F)
                                : widgets::color_of(context.palette, kind);
        if (shown.selected.empty() || shown.selected[j] != 0)
          draw->AddCircleFilled(at, radius, color);
        else
          draw->AddCircle(at, radius, color, 0, std::max(1.0F, widgets::em(0.07F)));
      }
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) nearest_ui(context, shown, positive);
    ImPlot::EndPlot();
  }

  static void nearest_ui(DrawContext& context, const Shown& shown, const auto& positive) {
    const ReceivedRankings& r = shown.rankings;
    const ImVec2 mouse = ImGui::GetMousePos();
    float best = widgets::em(0.8F);
    std::int32_t found = -1;
    for (std::size_t j = 0; j < r.mean.size(); ++j) {
      const ImVec2 at = ImPlot::PlotToPixels(positive(r.mean[j]), positive(r.max[j]));
      const float distance = std::hypot(at.x - mouse.x, at.y - mouse.y);
      if (distance >= best) continue;
      best = distance;
      found = static_cast<std::int32_t>(j);
    }
    if (found < 0) return;
    if (plot_clicked()) context.workspace.set_key_span(found, found + 1);
    if (!ImGui::BeginTooltip()) return;
    key_ui(context, shown, found);
    ImGui::EndTooltip();
  }

  widgets::MapTexture texture_;
  ImPlotRange x_range_, y_range_;
  double num_keys_ = 0;
};

}  // namespace

std::unique_ptr<Panel> make_received_rankings_panel() {
  return std::make_unique<ReceivedRankingsPanel>();
}

}  // namespace kvloupe::panels
