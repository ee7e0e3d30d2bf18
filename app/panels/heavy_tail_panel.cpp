// heavy_tail: how few queries and keys carry a head's attention. Left one plot of three: the shares of
// the mass by key and by query, on log axes with a power law through the largest; the queries by their
// distance to the mean query; how scores deviate from their key's mean. Right the chunk's rows of
// attention, the farthest query on top.
#include "app/panels/heavy_tail_words.h"
#include "app/panels/map_plot.h"
#include "app/panels/matrix_picture.h"
#include "app/panels/query_scatter.h"
#include "app/panels/tail_curves.h"
#include "app/state/questions/how_it_works/heavy_tail.h"
#include "app/state/token_text.h"

#include "core/base/units.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvloupe::panels {
namespace {

using state::HeavyTailQuestion;
using state::Place;
using Answer = HeavyTailQuestion::Answer;
using Curve = HeavyTailQuestion::Curve;
using Shares = HeavyTailQuestion::Shares;
using Tails = state::Result<HeavyTailQuestion>;

constexpr const char* kView = "heavy_tail";
constexpr std::int32_t kMostMarks = 256;  // keys of a longer span are not marked one by one

ImU32 key_color(const widgets::Palette& palette) { return palette.series[0]; }
ImU32 query_color(const widgets::Palette& palette) { return palette.current; }

class HeavyTailPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    const Tails result = shown_.ask(workspace, {workspace.place()});
    const Place& place = result.question.place;
    widgets::figure_head_ui(
        context.palette, context.figure, "Heavy tail", "", place_caption(place),
        result ? tail_chips(context, place, *result, context.workspace.option(kView, "plot"))
               : trace_chips(context, place));
    if (!ready_ui(context, result, "Ranking queries and keys by their attention")) return;
    headline_ui(context, tail_finding(*result, context.workspace.option(kView, "plot")));
    legend_ui(context, place, *result);
    ImGui::Dummy({0, widgets::grid(1)});
    plots_ui(context, result);
  }

 private:
  static std::optional<trace::NamedKeys> marked_keys(const Place& place, const Answer& answer) {
    const auto span = state::watched_keys(place);
    if (!span || span->keys.size() > kMostMarks || span->keys.first() > answer.num_keys())
      return std::nullopt;
    return span;
  }

  static void legend_ui(DrawContext& context, const Place& place, const Answer& answer) {
    using Shape = widgets::LegendItem::Shape;
    const widgets::Palette& p = context.palette;
    const std::string& plot = context.workspace.option(kView, "plot");
    const bool of_mass = plot == "mass" && answer.has_mass();
    std::vector<widgets::LegendItem> items;
    if (plot == "scores") {
      items.push_back({"scores", key_color(p), Shape::Square});
      items.push_back({"normal distribution", p.fit, Shape::Line});
    } else {
      if (answer.num_queries() > 1) items.push_back({"query", query_color(p), Shape::Line});
      if (of_mass) items.push_back({"key", key_color(p), Shape::Line});
      items.push_back({"power law (Hill)", p.fit, Shape::Line});
    }
    if (const auto span = marked_keys(place, answer); span && of_mass)
      items.push_back({state::readable_name(span->name), p.text, Shape::Dot});
    if (answer.num_queries() > 1 && place.chunk_info().begin > 0)
      items.push_back({"the chunk begins", p.muted, Shape::Line});
    add_looked_at(p, place.looked_at().size(), items);
    widgets::legend_ui(p, items);
    beside_ui(widgets::em(1.5F), widgets::em(22));
    color_range_ui(context, {});
  }

  void plots_ui(DrawContext& context, const Tails& result) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool beside = room.x > widgets::em(42);
    const float least = least_plot_height() + widgets::em(6);
    const float height = !beside ? std::max(widgets::em(17), context.least_plot + widgets::em(6))
                         : context.figure ? room.y
                                          : std::max(room.y, least);
    ImGui::BeginChild("tail", {beside ? 0.42F * room.x : 0, height}, ImGuiChildFlags_None,
                      child_flags(context));
    tail_ui(context, result);
    ImGui::EndChild();
    if (beside) ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("rows", {0, height}, ImGuiChildFlags_None, child_flags(context));
    rows_ui(context, result);
    ImGui::EndChild();
  }

  void tail_ui(DrawContext& context, const Tails& result) {
    const std::string& plot = context.workspace.option(kView, "plot");
    if (plot == "queries")
      relevance_ui(context, result);
    else if (plot == "scores")
      deviations_ui(context, result);
    else
      mass_ui(context, result);
  }

  static ImVec2 rest_of(const DrawContext& context) {
    return {-1, plot_height(context, ImGui::GetContentRegionAvail().y - 1)};
  }

  // What the plot is and measures, and which one it is.
  static void plot_head_ui(DrawContext& context, const std::string& title,
                           const std::string& measured) {
    heading_ui(context, title, measured);
    if (!context.figure) option_ui(context, kView, "plot", "plot", widgets::em(6));
  }

  void relevance_ui(DrawContext& context, const Tails& result) {
    plot_head_ui(context, "Queries", "1 + S_q = 1 \u2212 cos(mean query, query), by rank");
    const Curve& curve = result->relevance;
    if (result->num_queries() == 1 || curve.line.empty()) {
      widgets::empty_ui(context.palette, result->num_queries() == 1
                                             ? "The chunk has one query, which is its own mean."
                                             : "All queries are equal: no S_q exceeds \u22121.");
      return;
    }
    if (!ImPlot::BeginPlot("##relevance", rest_of(context), kScatterFlags)) return;
    // At least a decade, so that a narrow spread looks narrow; a query along the mean falls out.
    const double most = curve.line.front().second;
    const double low = 0.8 * std::max(curve.line.back().second, 1e-3 * most);
    const double high = std::max(1.4 * most, 10 * low);
    ImPlot::SetupAxes("rank of query by S_q (log)", "1 + S_q (log)", ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxesLimits(0.9, 1.2 * static_cast<double>(curve.ranking.size()), low, high,
                            relevance_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    fine_log_ticks(ImAxis_Y1, low, high);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    tail_curve_ui(curve, query_color(context.palette));
    power_law_ui(context, curve);
    for (const std::int32_t row : result.question.place.looked_at()) {
      const auto rank = curve.ranking.rank[static_cast<std::size_t>(row)];
      ring_ui(context, rank + 1, 1 + curve.ranking.value[static_cast<std::size_t>(rank)]);
    }
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure)
      query_at(context, result,
               curve.ranking.item[rank_at(ImPlot::GetPlotMousePos().x, curve.ranking.size())]);
    ImPlot::EndPlot();
  }

  // The histogram of deviations on a log axis, and the normal distribution of the same variance.
  void deviations_ui(DrawContext& context, const Tails& result) {
    const analysis::ScoreDeviations& deviations = result->spread.deviations;
    plot_head_ui(context, "Scores", "cos(query, key) less its key's mean");
    if (deviations.bins.empty()) {
      widgets::empty_ui(context.palette, "No score deviates from its key's mean.");
      return;
    }
    if (!ImPlot::BeginPlot("##deviations", rest_of(context), kScatterFlags)) return;
    const double width = analysis::ScoreDeviations::kBinWidth;
    const double low = 0.5 / static_cast<double>(deviations.count);
    const double far = 1.05 * std::max({4.0, -deviations.lowest, deviations.highest});
    ImPlot::SetupAxes("deviation (\u03C3)", "share of scores (log)", ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxesLimits(-far, far, low, 0.6, deviations_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    for (std::size_t i = 0; i < deviations.bins.size(); ++i) {
      if (deviations.bins[i] == 0) continue;
      const double begin =
          width * static_cast<double>(deviations.first_bin + static_cast<std::int64_t>(i));
      draw->AddRectFilled(ImPlot::PlotToPixels(begin, deviation_share(deviations, i)),
                          ImPlot::PlotToPixels(begin + width, low),
                          widgets::with_alpha(key_color(context.palette), 0.7F));
    }
    std::vector<ImVec2> normal;
    for (double x = -far; x <= far; x += 0.05) {
      const double share = width * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
      if (share >= low) normal.push_back(ImPlot::PlotToPixels(x, share));
    }
    draw->AddPolyline(normal.data(), static_cast<int>(normal.size()), context.palette.fit, 0,
                      widgets::em(0.12F));
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) deviation_at(deviations);
    ImPlot::EndPlot();
  }

  static double deviation_share(const analysis::ScoreDeviations& deviations, std::size_t bin) {
    return static_cast<double>(deviations.bins[bin]) / static_cast<double>(deviations.count);
  }

  static void deviation_at(const analysis::ScoreDeviations& deviations) {
    const double width = analysis::ScoreDeviations::kBinWidth;
    const auto bin = static_cast<std::int64_t>(std::floor(ImPlot::GetPlotMousePos().x / width)) -
                     deviations.first_bin;
    if (bin < 0 || bin >= static_cast<std::int64_t>(deviations.bins.size())) return;
    const auto i = static_cast<std::size_t>(bin);
    const double begin = width * static_cast<double>(deviations.first_bin + bin);
    widgets::tooltip("%g to %g standard deviations (%.4g to %.4g in cosine)\n%s of %s scores, %s",
                     begin, begin + width, begin * deviations.sigma,
                     (begin + width) * deviations.sigma, format_count(deviations.bins[i]).c_str(),
                     format_count(deviations.count).c_str(),
                     share_text(deviation_share(deviations, i)).c_str());
  }

  void mass_ui(DrawContext& context, const Tails& result) {
    plot_head_ui(context, "Mass", "share of the attention to the past, position 0 left out");
    const Answer& answer = *result;
    if (!answer.has_mass()) {
      widgets::empty_ui(context.palette, "No key besides position 0 lies before this chunk.");
      return;
    }
    if (!ImPlot::BeginPlot("##mass", rest_of(context), kScatterFlags)) return;
    const bool several = answer.num_queries() > 1;
    const double top = std::max({answer.keys.height(0), several ? answer.queries.height(0) : 0,
                                 answer.keys.tail ? std::min(1.0, answer.keys.tail->at(1)) : 0});
    const double bottom = std::max(answer.keys.line.back().second, 1e-5 * top);
    ImPlot::SetupAxes(several ? "rank of key or query (log)" : "rank of key (log)",
                      "share of the mass (log)", ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxesLimits(
        0.9, 1.2 * static_cast<double>(std::max(answer.num_keys(), answer.num_queries())),
        bottom * 0.6, top * 1.5, mass_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    if (several) tail_curve_ui(answer.queries, query_color(context.palette));
    tail_curve_ui(answer.keys, key_color(context.palette));
    half_ui(context, answer.keys, key_color(context.palette), "keys", 1);
    if (several) half_ui(context, answer.queries, query_color(context.palette), "queries", 2);
    marks_ui(context, result.question.place, answer);
    power_law_ui(context, answer.keys);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) mass_at(context, result);
    ImPlot::EndPlot();
  }

  static void ring_ui(DrawContext& context, double rank, double height) {
    ImPlot::GetPlotDrawList()->AddCircle(ImPlot::PlotToPixels(rank, height), widgets::em(0.5F),
                                         context.palette.accent, 0, widgets::em(0.14F));
  }

  // Where the selected query and the keys to follow stand.
  static void marks_ui(DrawContext& context, const Place& place, const Answer& answer) {
    for (const std::int32_t row : place.looked_at()) {
      if (answer.num_queries() < 2) break;
      const auto rank = answer.queries.ranking.rank[static_cast<std::size_t>(row)];
      ring_ui(context, rank + 1, answer.queries.height(static_cast<std::size_t>(rank)));
    }
    const auto span = marked_keys(place, answer);
    if (!span) return;
    for (const std::int32_t key : span->keys.positions_in(1, answer.num_keys() + 1)) {
      const auto rank = answer.keys.ranking.rank[static_cast<std::size_t>(key - 1)];
      ImPlot::GetPlotDrawList()->AddCircleFilled(
          ImPlot::PlotToPixels(rank + 1.0, answer.keys.height(static_cast<std::size_t>(rank))),
          widgets::em(0.27F), context.palette.text);
    }
  }

  static void mass_at(DrawContext& context, const Tails& result) {
    const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
    const auto height_at = [&](const Shares& shares) {
      const std::size_t rank = rank_at(mouse.x, shares.ranking.size());
      return std::log(std::max(shares.height(rank), 1e-30));
    };
    const double y = std::log(mouse.y);
    if (result->num_queries() > 1 &&
        std::abs(height_at(result->queries) - y) < std::abs(height_at(result->keys) - y)) {
      const analysis::Ranking& queries = result->queries.ranking;
      query_at(context, result, queries.item[rank_at(mouse.x, queries.size())]);
      return;
    }
    const analysis::Ranking& keys = result->keys.ranking;
    const std::size_t rank = rank_at(mouse.x, keys.size());
    const std::int32_t key = keys.item[rank] + 1;
    context.workspace.pointer.at(result.question.place, key);
    widgets::tooltip("key %s\nmass %.4g, %s of all\nrank %s of %s",
                     token_line(result.question.place, key).c_str(), keys.value[rank],
                     share_text(result->keys.height(rank)).c_str(),
                     format_count(static_cast<std::int64_t>(rank) + 1).c_str(),
                     format_count(result->num_keys()).c_str());
    if (plot_clicked() && !result.stale) context.workspace.cursor.set_keys(key, key + 1);
  }

  static void query_at(DrawContext& context, const Tails& result, std::int32_t row) {
    const Place& place = result.question.place;
    widgets::tooltip("%s", tail_query_lines(place, *result, row).c_str());
    if (plot_clicked() && !result.stale)
      choose_query(context, place, static_cast<std::size_t>(row));
  }

  void rows_ui(DrawContext& context, const Tails& result) {
    const Place& place = result.question.place;
    const std::string& order_name = context.workspace.option(kView, "order");
    const RowOrder* order = state::row_order(*result, order_name);
    const bool several = result->num_queries() > 1;
    const bool sorted = several && order != nullptr;
    heading_ui(context,
               !several          ? "Row"
               : !context.figure ? "Rows"
               : sorted          ? "Rows by S_q"
                                 : "Rows by position",
               !several ? "the attention of the query"
               : sorted ? "farthest from the mean query on top"
                        : "first query on top");
    if (several && !context.figure) option_ui(context, kView, "order", "by", widgets::em(6));
    MapPlotSpec spec;
    spec.id = "##rows";
    spec.x_label = "key (token position)";
    if (several) spec.y_label = sorted ? "query, by falling S_q" : "query of the chunk";
    spec.rows = place.chunk_info().length;
    spec.cols = place.chunk_info().end();
    spec.show_y_ticks = several;
    spec.size = rest_of(context);
    const ColorRange range;
    spec.content_key = result.key + order_name + range.key();
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_strip(context.palette, range, *result->map, result->rows.get(), window, pixels, order);
    };
    const TickRoom room;
    const auto hit = map_plot_ui(context, spec, texture_, [&] {
      place_ui(context, place, *result, order);
      span_marks_ui(context, place, true);
    });
    if (!hit) return;
    const auto shown = static_cast<std::size_t>(hit->row);
    const std::int32_t row = order != nullptr ? (*order)[shown] : static_cast<std::int32_t>(shown);
    const auto key = static_cast<std::int32_t>(hit->col);
    if (hit->clicked && !result.stale) choose_pair(context, place, row, key);
    const std::int32_t query = place.chunk_info().begin + row;
    Place there = place;
    there.query = query;
    context.workspace.pointer.at(there, key);
    const std::string attention = key > query
                                      ? "after the query: not visible"
                                      : "attention " + share_text(result->rows->at(row, key));
    widgets::tooltip("%s\nkey %s\n%s", tail_query_lines(place, *result, row).c_str(),
                     token_line(place, key).c_str(), attention.c_str());
  }

  // Where the chunk begins, and the row of the selected query.
  static void place_ui(DrawContext& context, const Place& place, const Answer& answer,
                       const RowOrder* order) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    ImPlot::PushPlotClipRect();
    if (const double begin = place.chunk_info().begin; begin > 0)
      draw->AddLine(ImPlot::PlotToPixels(begin, limits.Y.Min),
                    ImPlot::PlotToPixels(begin, limits.Y.Max), context.palette.muted,
                    std::max(1.0F, widgets::em(0.1F)));
    const std::vector<std::int32_t> rows = place.looked_at();
    for (const std::int32_t row : rows) {
      const double at =
          order != nullptr ? answer.relevance.ranking.rank[static_cast<std::size_t>(row)] : row;
      const ImVec2 from = ImPlot::PlotToPixels(limits.X.Min, at);
      const ImVec2 to = ImPlot::PlotToPixels(limits.X.Max, at + 1);
      // The frames of several narrow rows would hide what is in them: bars at their left do not.
      if (rows.size() == 1)
        draw->AddRect(from, to, context.palette.accent, 0, 0, std::max(1.0F, widgets::em(0.1F)));
      else
        draw->AddRectFilled(from, {from.x + widgets::em(0.5F), std::max(to.y, from.y + 1)},
                            context.palette.accent);
    }
    ImPlot::PopPlotClipRect();
  }

  static void choose_pair(DrawContext& context, const Place& place, std::int32_t row,
                          std::int32_t key) {
    context.workspace.cursor.change("", [&](state::Selection& s) {
      s.place.query = place.chunk_info().begin + row;
      s.place.keys = {key, key + 1};
    });
  }

  state::LastAnswer<HeavyTailQuestion> shown_;
  widgets::MapTexture texture_;
  ContentFit relevance_fit_, deviations_fit_, mass_fit_;
};

}  // namespace

std::unique_ptr<Panel> make_heavy_tail_panel() { return std::make_unique<HeavyTailPanel>(); }

}  // namespace kvloupe::panels
