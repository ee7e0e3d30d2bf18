// received_rankings: the past keys ranked by the mean and by the largest attention that a window of
// queries gives them, which of them are global or query-specific (received_rankings.h has the rule),
// and what became of them under the method.
#include "app/panels/fate_marks.h"
#include "app/panels/map_plot.h"
#include "app/state/kept_of_span.h"
#include "app/state/labels.h"
#include "app/state/questions/how_it_works/received_rankings.h"
#include "app/state/token_text.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

namespace kvloupe::panels {
namespace {

using analysis::KeyKind;
using analysis::ReceivedRankings;
using state::Place;
using state::RankedSelectionQuestion;
using state::ReceivedRankingsQuestion;
using widgets::Meaning;
using Ranked = state::Result<ReceivedRankingsQuestion>;
using Selected = state::Result<RankedSelectionQuestion>;

// Strips on the y axis of the map.
struct Strip {
  const char* title;
  double begin, end;
};
enum StripIndex { kByMean, kByMax, kKinds, kFates };
// A row each, with a gap to the next.
constexpr std::array<Strip, 4> kStrips{{{"rank by mean", 0.08, 0.92},
                                        {"rank by maximum", 1.08, 1.92},
                                        {"kind", 2.18, 2.82},
                                        {"kept", 3.18, 3.82}}};
constexpr float kLeastStrips = 9, kLeastScatter = 12.5F;  // em, with their axes

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

// 1 for the best rank, 0 for the last. The ranks that count as high are set off from the others, so that
// the two rankings differ to the eye where they differ in what is global and what query-specific.
double brightness(std::int32_t rank, const ReceivedRankings& r) {
  const auto top = static_cast<double>(r.top), rest = static_cast<double>(r.num_keys()) - top;
  if (rank < r.top) return 1 - 0.35 * rank / top;
  return 0.3 * (1 - (rank - top) / std::max(1.0, rest));
}

// What is drawn: the rankings, and the selection of a method where it is known of the same place.
struct Picture {
  const Ranked& ranked;
  const Selected& chosen;

  const ReceivedRankings& rankings() const { return ranked->rankings; }
  const Place& place() const { return ranked.question.place; }
  bool has_selection() const { return chosen && !chosen->selected.empty(); }
  bool selected(std::size_t key) const { return has_selection() && chosen->selected[key] != 0; }
  state::KeyFate fate(std::size_t key) const { return chosen->fates[key]; }
};

// Of the fates of keys that share a pixel.
state::KeyFate most_telling(const Picture& picture, std::size_t begin, std::size_t end) {
  state::KeyFate found = picture.fate(begin);
  for (std::size_t j = begin + 1; j < end; ++j)
    if (prominence_of(picture.fate(j)) > prominence_of(found)) found = picture.fate(j);
  return found;
}

ImU32 pixel_color(const widgets::Palette& palette, const Picture& picture, int strip,
                  std::pair<std::int64_t, std::int64_t> keys) {
  const ReceivedRankings& r = picture.rankings();
  if (keys.first >= keys.second) return palette.panel;
  if (strip == kByMean || strip == kByMax) {
    const auto& ranks = strip == kByMean ? r.mean_rank : r.max_rank;
    const auto best = std::min_element(ranks.begin() + keys.first, ranks.begin() + keys.second);
    // Broken ones rank last: then all of the pixel's keys are.
    if (r.kind[static_cast<std::size_t>(best - ranks.begin())] == KeyKind::Broken)
      return palette.error;
    return widgets::sequential_color(palette, brightness(*best, r));
  }
  const auto begin = static_cast<std::size_t>(keys.first),
             end = static_cast<std::size_t>(keys.second);
  if (strip == kFates)
    return picture.has_selection() ? color_of(palette, most_telling(picture, begin, end))
                                   : palette.panel;
  bool specific = false, global = false, broken = false;
  for (std::size_t j = begin; j < end; ++j) {
    global |= r.kind[j] == KeyKind::Global;
    specific |= r.kind[j] == KeyKind::QuerySpecific;
    broken |= r.kind[j] == KeyKind::Broken;
  }
  return widgets::color_of(palette, broken     ? KeyKind::Broken
                                    : specific ? KeyKind::QuerySpecific
                                    : global   ? KeyKind::Global
                                               : KeyKind::Other);
}

void fill_strips(const widgets::Palette& palette, const Picture& picture,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const std::int64_t keys = picture.rankings().num_keys();
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
                    : pixel_color(palette, picture, strip,
                                  widgets::MapTexture::cells_of_pixel(
                                      window.col_begin, window.col_end, window.width, x, keys));
  }
  widgets::hatch_pixels(palette, window.width, pixels);
}

class ReceivedRankingsPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    const Place& now = workspace.place();
    const Ranked ranked = ranked_.ask(workspace, {now});
    const Place place = ranked.question.place;
    Selected chosen = selected_.ask(workspace, {now, workspace.method()});
    // A selection of another place is not drawn over these ranks.
    if (chosen && (chosen.question.place.cell_key() != place.cell_key() ||
                   chosen.question.place.window != place.window))
      chosen.answer = {};
    state::MethodFacts early;  // a run belongs to one trace alone
    if (!chosen && place.trace == now.trace) early = state::facts_of(place, workspace.method());
    const state::MethodFacts& facts = chosen ? chosen->facts : early;
    widgets::figure_head_ui(context.palette, context.figure, "Received rankings",
                            method_caption(context, facts), place_caption(place),
                            method_chips(context, place, facts, workspace.selection().shown));
    window_ui(context);
    if (!ready_ui(context, ranked, "Ranking keys by received attention")) return;
    if (chosen && chosen.stale) widgets::stale_ui(context.palette);
    picture_ui(context, {ranked, chosen});
  }

 private:
  void picture_ui(DrawContext& context, const Picture& picture) {
    finding_ui(context, picture);
    broken_ui(context, picture.ranked->num_broken);
    legend_ui(context, picture);
    ImGui::Dummy({0, widgets::grid(1)});
    // In a low panel the strips and the scatter shrink together, then it scrolls; in a low figure the
    // strips stand alone.
    ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.5F);
    const float least = widgets::em(kLeastStrips);
    if (!context.figure) room.y = std::max(room.y, least + gap + widgets::em(kLeastScatter));
    const float strips = std::max(least, room.y * (context.figure ? 0.5F : 0.4F));
    const bool both = room.y - strips - gap >= widgets::em(7);
    strips_ui(context, picture, {room.x, both ? strips : std::max(widgets::em(9), room.y)});
    if (both) scatter_ui(context, picture, {room.x, room.y - strips - gap});
  }

  static void window_ui(DrawContext& context) {
    if (context.figure) return;
    const int now = context.workspace.place().window;
    std::string text = fmt::format("the last {}", format_count(now));
    for (const WindowChoice& choice : kWindows)
      if (choice.window == now) text = choice.text;
    beside_ui(widgets::em(1), widgets::em(11) + ImGui::CalcTextSize("queries that rank").x);
    ImGui::SetNextItemWidth(std::min(widgets::em(11), ImGui::GetContentRegionAvail().x * 0.5F));
    if (!ImGui::BeginCombo("queries that rank", text.c_str())) return;
    for (const WindowChoice& choice : kWindows)
      if (ImGui::Selectable(choice.text, choice.window == now))
        context.workspace.cursor.change(
            "window", [&](state::Selection& s) { s.place.window = choice.window; });
    ImGui::EndCombo();
  }

  static void finding_ui(DrawContext& context, const Picture& picture) {
    std::string text;
    if (picture.has_selection())
      text = fmt::format("{} of the global and {} of the query-specific keys are kept. ",
                         share(picture.chosen->global), share(picture.chosen->query_specific));
    headline_ui(context, text + of_span(picture.place(), picture));
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_wrapped(context.palette.muted, meaning_of_kinds(picture));
  }

  // "Global: the 96 keys of 1,920 with most attention on average from queries 1,920 to 2,047 in query heads 3
  // to 5. Query-specific: the 28 further ones that only some query gives as much."
  static std::string meaning_of_kinds(const Picture& picture) {
    const ReceivedRankings& r = picture.rankings();
    const std::string queries = r.query_end - r.query_begin == 1
                                    ? fmt::format("query {}", format_count(r.query_begin))
                                    : fmt::format("queries {} to {}", format_count(r.query_begin),
                                                  format_count(r.query_end - 1));
    const std::string heads = r.num_q_heads == 1
                                  ? fmt::format("query head {}", r.first_q_head)
                                  : fmt::format("query heads {} to {}", r.first_q_head,
                                                r.first_q_head + r.num_q_heads - 1);
    std::string text = fmt::format(
        "Global: {} of {} keys, the {} with most attention on average from {} in {}. "
        "Query-specific: {} more, among the {} best by their maximum, but not by their mean.",
        format_count(picture.ranked->num_global), format_count(r.num_keys()),
        share_text(ReceivedRankings::kTopShare), queries, heads,
        format_count(picture.ranked->num_query_specific), format_count(r.top));
    if (const std::int64_t step = picture.ranked->drawn_one_in; step > 1)
      text += fmt::format(" Below, one in {} of the other keys is drawn.", step);
    return text;
  }

  // "Of needle's 22 keys none is selected; 4 are global and 7 query-specific."
  static std::string of_span(const Place& place, const Picture& picture) {
    const ReceivedRankings& r = picture.rankings();
    const auto span = state::watched_keys(place);
    if (!span) return "";
    const std::vector<std::int32_t> keys = span->keys.positions_in(0, r.num_keys());
    if (keys.empty()) return "";
    int global = 0, specific = 0, selected = 0;
    for (const std::int32_t key : keys) {
      const auto index = static_cast<std::size_t>(key);
      global += r.kind[index] == KeyKind::Global;
      specific += r.kind[index] == KeyKind::QuerySpecific;
      selected += picture.selected(index);
    }
    std::string chosen;
    if (picture.has_selection())
      chosen = selected == 0 ? "none is kept; " : count(selected) + " kept; ";
    return fmt::format("Of {} {}{} global and {} query-specific.",
                       state::keys_of(state::readable_name(span->name), std::ssize(keys)), chosen,
                       count(global), specific);
  }

  static void broken_ui(DrawContext& context, std::int64_t keys) {
    if (keys == 0) return;
    widgets::text_wrapped(
        context.palette.error,
        fmt::format("{} without a rank, drawn in this colour: the attention that {} is not a "
                    "number, because the stored Q or K hold a NaN or an infinity.",
                    keys == 1 ? "1 key is" : format_count(keys) + " keys are",
                    keys == 1 ? "it receives" : "they receive"));
  }

  // "1 is", "1,638 are"
  static std::string count(std::int64_t keys) {
    return fmt::format("{} {}", format_count(keys), keys == 1 ? "is" : "are");
  }

  static std::string share(const analysis::KindCount& count) {
    if (count.keys == 0) return "none";
    return share_text(static_cast<double>(count.selected) / static_cast<double>(count.keys));
  }

  static void legend_ui(DrawContext& context, const Picture& picture) {
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "last", "first", "rank",
                            widgets::em(6));
    beside_ui(widgets::em(1), widgets::em(7));
    std::vector<widgets::LegendItem> items;
    for (const KeyKind kind : {KeyKind::Global, KeyKind::QuerySpecific})
      items.push_back({state::label_of(kind), widgets::color_of(context.palette, kind)});
    for (const Meaning meaning : meanings_in(picture))
      items.push_back(item_of(context.palette, meaning));
    if (const auto span = marked_keys(picture))
      items.push_back({state::readable_name(span->name), context.palette.text,
                       widgets::LegendItem::Shape::Ring});
    widgets::legend_ui(context.palette, items);
  }

  // The fates that occur, in the order of the legend of meanings.
  static std::vector<Meaning> meanings_in(const Picture& picture) {
    if (!picture.has_selection()) return {};
    std::set<Meaning> there;
    for (const state::KeyFate& fate : picture.chosen->fates) there.insert(meaning_of(fate));
    std::vector<Meaning> meanings;
    for (const Meaning meaning : widgets::all_meanings())
      if (there.contains(meaning)) meanings.push_back(meaning);
    return meanings;
  }

  // What is not kept has the colour of a ground: of dots the ring is seen.
  static widgets::LegendItem item_of(const widgets::Palette& palette, Meaning meaning) {
    if (meaning == Meaning::Lost)
      return widgets::legend_of(palette, meaning, "lost: global or query-specific, not kept");
    if (meaning == Meaning::NotKept)
      return {widgets::name_of(meaning), palette.muted, widgets::LegendItem::Shape::Ring};
    return widgets::legend_of(palette, meaning);
  }

  void strips_ui(DrawContext& context, const Picture& picture, ImVec2 size) {
    const auto keys = static_cast<double>(picture.rankings().num_keys());
    std::vector<std::string> names;
    for (const Strip& strip : kStrips) names.emplace_back(strip.title);
    if (!picture.has_selection()) names.pop_back();
    const auto strips = static_cast<double>(names.size());
    if (num_keys_ != keys || num_strips_ != strips) {
      num_keys_ = keys;
      num_strips_ = strips;
      x_range_ = {0, keys};
      y_range_ = {0, strips};
    }
    MapPlotSpec spec;
    spec.id = "##received";
    spec.x_label = "key (token position)";
    spec.rows = strips;
    spec.cols = keys;
    spec.size = size;
    spec.row_ticks = true;
    spec.row_names = &names;
    spec.content_key = picture.ranked.key + (picture.chosen ? "|" + picture.chosen.key : "");
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_strips(context.palette, picture, window, pixels);
    };
    spec.x_range = &x_range_;
    spec.y_range = &y_range_;
    const auto hit = map_plot_ui(context, spec, texture_,
                                 [&] { span_marks_ui(context, picture.place(), true); });
    if (hit) point_at(context, picture, static_cast<std::int32_t>(hit->col), hit->clicked);
  }

  static void point_at(DrawContext& context, const Picture& picture, std::int32_t key,
                       bool clicked) {
    if (clicked && !picture.ranked.stale) context.workspace.cursor.set_keys(key, key + 1);
    context.workspace.pointer.at(picture.place(), key);
    const ReceivedRankings& r = picture.rankings();
    const auto j = static_cast<std::size_t>(key);
    std::vector<widgets::TooltipLine> lines{
        {fmt::format("key {}", token_line(picture.place(), key))},
        {fmt::format("mean {}, rank {}", share_text(r.mean[j]), r.mean_rank[j] + 1)},
        {fmt::format("maximum {}, rank {}", share_text(r.max[j]), r.max_rank[j] + 1)}};
    if (r.kind[j] != KeyKind::Other)
      lines.push_back({state::label_of(r.kind[j]), widgets::color_of(context.palette, r.kind[j])});
    if (picture.has_selection()) {
      const Meaning meaning = meaning_of(picture.fate(j));
      const ImU32 color = is_left(picture, j) ? 0 : color_of_key(context.palette, picture, j);
      lines.push_back({widgets::name_of(meaning), color});
    }
    widgets::tooltip(std::move(lines));
  }

  // What the keys drawn receive; of those that receive nothing, the least that is drawn.
  struct Extent {
    double mean = 1, max = 1;
  };
  static Extent least_of(const Picture& picture) {
    const ReceivedRankings& r = picture.rankings();
    Extent least;
    const auto lower = [](double& low, double value) {
      if (value > 0) low = std::min(low, std::max(kLeast, value));
    };
    for (const std::int32_t key : picture.ranked->drawn) {
      lower(least.mean, double{r.mean[static_cast<std::size_t>(key)]});
      lower(least.max, double{r.max[static_cast<std::size_t>(key)]});
    }
    return {least.mean / 1.5, least.max / 1.5};
  }

  static ImVec2 pixel_of(const ReceivedRankings& r, const Extent& least, std::int32_t key) {
    const auto j = static_cast<std::size_t>(key);
    return ImPlot::PlotToPixels(std::max(least.mean, double{r.mean[j]}),
                                std::max(least.max, double{r.max[j]}));
  }

  // The keys to follow, where they are few enough to tell them apart.
  static std::optional<trace::NamedKeys> marked_keys(const Picture& picture) {
    const auto span = state::watched_keys(picture.place());
    const bool few = span && span->keys.size() <= kMostMarks;
    return few && span->keys.first() < picture.rankings().num_keys() ? span : std::nullopt;
  }

  // What became of the key, where a method selected; else of which kind it is. Its kind is in the strips.
  static ImU32 color_of_key(const widgets::Palette& palette, const Picture& picture,
                            std::size_t key) {
    const KeyKind kind = picture.rankings().kind[key];
    if (kind == KeyKind::Broken) return palette.error;
    if (picture.has_selection() && !is_left(picture, key))
      return color_of(palette, picture.fate(key));
    return kind == KeyKind::Other ? widgets::with_alpha(palette.muted, 0.45F)
                                  : widgets::color_of(palette, kind);
  }

  // Not kept, and of no kind that should be.
  static bool is_left(const Picture& picture, std::size_t key) {
    return picture.has_selection() && meaning_of(picture.fate(key)) == Meaning::NotKept;
  }

  static void marks_ui(DrawContext& context, const Picture& picture, const Extent& least) {
    const auto span = marked_keys(picture);
    if (!span) return;
    const ReceivedRankings& r = picture.rankings();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    for (const std::int32_t key : span->keys.positions_in(0, r.num_keys())) {
      const auto index = static_cast<std::size_t>(key);
      const ImVec2 at = pixel_of(r, least, key);
      // The ring says that it is watched.
      draw->AddCircleFilled(at, widgets::em(0.34F), context.palette.panel);
      draw->AddCircle(at, widgets::em(0.34F), context.palette.text, 0, widgets::em(0.1F));
      if (!is_left(picture, index))
        draw->AddCircleFilled(at, widgets::em(0.2F), color_of_key(context.palette, picture, index));
    }
  }

  // Mean against maximum: global keys to the right, query-specific ones above the rest.
  void scatter_ui(DrawContext& context, const Picture& picture, ImVec2 size) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    if (!ImPlot::BeginPlot("##mean and max", size, kFlags)) return;
    ImPlot::SetupAxes("mean attention received",
                      size.y < widgets::em(14) ? "largest received" : "largest attention received",
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    const Extent least = least_of(picture);
    ImPlot::SetupAxesLimits(least.mean, 2 * std::max(least.mean, picture.ranked->most_mean),
                            least.max, 2, fit_.condition(picture.ranked.key));
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    const float radius = widgets::em(0.17F);
    const ReceivedRankings& r = picture.rankings();
    for (const std::int32_t key : picture.ranked->drawn) {
      const auto j = static_cast<std::size_t>(key);
      const ImU32 color = color_of_key(context.palette, picture, j);
      const ImVec2 at = pixel_of(r, least, key);
      if (is_left(picture, j))
        draw->AddCircle(at, radius, color, 0, std::max(1.0F, widgets::em(0.07F)));
      else
        draw->AddCircleFilled(at, radius, color);
    }
    marks_ui(context, picture, least);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) nearest_ui(context, picture, least);
    ImPlot::EndPlot();
  }

  static void nearest_ui(DrawContext& context, const Picture& picture, const Extent& least) {
    const ImVec2 mouse = ImGui::GetMousePos();
    float best = widgets::em(0.8F);
    std::int32_t found = -1;
    for (const std::int32_t key : picture.ranked->drawn) {
      const ImVec2 at = pixel_of(picture.rankings(), least, key);
      const float distance = std::hypot(at.x - mouse.x, at.y - mouse.y);
      if (distance >= best) continue;
      best = distance;
      found = key;
    }
    if (found >= 0) point_at(context, picture, found, plot_clicked());
  }

  static constexpr double kLeast = 1e-7;  // of the axes: attention may be 0
  static constexpr std::int32_t kMostMarks = 64;
  state::LastAnswer<ReceivedRankingsQuestion> ranked_;
  state::LastAnswer<RankedSelectionQuestion> selected_;
  widgets::MapTexture texture_;
  ImPlotRange x_range_, y_range_;
  double num_keys_ = 0, num_strips_ = 0;
  ContentFit fit_;
};

}  // namespace

std::unique_ptr<Panel> make_received_rankings_panel() {
  return std::make_unique<ReceivedRankingsPanel>();
}

}  // namespace kvloupe::panels
