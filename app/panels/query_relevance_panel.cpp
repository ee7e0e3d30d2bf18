// query_relevance: S_q of each query against the largest attention that it gives. Where the cloud
// rises, queries far from the mean query are the ones that matter.
#include "app/panels/query_scatter.h"
#include "app/state/labels.h"
#include "app/state/questions/how_it_works/query_relevance.h"

namespace kvloupe::panels {
namespace {

using state::Place;
using state::QueryRelevanceQuestion;
using Relevance = state::Result<QueryRelevanceQuestion>;

class QueryRelevancePanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    const Relevance result = shown_.ask(workspace, {workspace.place(), workspace.method()});
    const Place& place = result.question.place;
    widgets::figure_head_ui(
        context.palette, context.figure, "Query relevance", "", place_caption(place),
        result ? query_chips(context, place, *result->queries) : trace_chips(context, place));
    if (!ready_ui(context, result, "Measuring the queries")) return;
    if (result->queries->num_queries() == 0) {
      widgets::empty_ui(context.palette, "The chunk has no queries.");
      return;
    }
    const bool theorem = state::draws_theorem(workspace);
    headline_ui(context, query_finding(place, *result->queries));
    if (!theorem) medians_words_ui(context, *result);
    option_ui(context, "query_relevance", "plot", "plot", widgets::em(9));
    const Wanted wanted = wanted_by(context, place);
    legend(context, place, *result, wanted, theorem);
    theorem ? theorem_ui(context, result, wanted) : plot_ui(context, result, wanted);
  }

 private:
  static void legend(DrawContext& context, const Place& place,
                     const QueryRelevanceQuestion::Answer& answer, const Wanted& wanted,
                     bool theorem) {
    using Shape = widgets::LegendItem::Shape;
    std::vector<widgets::LegendItem> items{
        {"query", relevance_color(context.palette, 0.7), Shape::Dot}};
    add_rings(context.palette, place, words_of_chosen(*answer.queries), place.looked_at().size(),
              wanted, items);
    if (theorem)
      items.push_back({"bound: no query lies above", context.palette.text, Shape::Line});
    else if (!answer.medians.empty())
      items.push_back({words_of_medians(answer.medians), context.palette.text, Shape::Line});
    widgets::legend_ui(context.palette, items);
  }

  // The least that is told apart; what gives less, or nothing, stands where the axis begins.
  static double least_attention(const QueryAnswer& answer) {
    constexpr double kLeastShare = 1e-4;
    double least = answer.most_attention;
    for (const float given : answer.geometry.max_attention)
      if (given > 0) least = std::min(least, double{given});
    return std::max({least, kLeastShare * answer.most_attention, 1e-9});
  }

  static void medians_words_ui(DrawContext& context, const QueryRelevanceQuestion::Answer& answer) {
    if (answer.medians.empty()) return;
    widgets::text_wrapped(
        context.palette.text,
        fmt::format("Outliers aside (by median), the {} queries nearest to the mean query give one "
                    "key {} of their attention, the {} farthest {}.",
                    answer.medians.front().count, state::brief_share_text(answer.medians.front().y),
                    answer.medians.back().count, state::brief_share_text(answer.medians.back().y)));
  }
  static std::string words_of_medians(const std::vector<state::MedianPoint>& medians) {
    const bool even = std::ranges::all_of(
        medians, [&](const auto& point) { return point.count == medians.front().count; });
    return fmt::format("medians of {} groups of {}{} queries, by S_q", medians.size(),
                       even ? "" : "about ", medians.front().count);
  }

  static void medians_ui(const widgets::Palette& palette,
                         const QueryRelevanceQuestion::Answer& answer, double floor) {
    std::vector<ImVec2> line;
    for (const state::MedianPoint& point : answer.medians)
      line.push_back(ImPlot::PlotToPixels(point.x, std::max(point.y, floor)));
    ImPlot::GetPlotDrawList()->AddPolyline(line.data(), static_cast<int>(line.size()),
                                           widgets::with_alpha(palette.text, 0.55F), 0,
                                           widgets::em(0.12F));
  }

  // 1, 2 and 5 of each decade of per cent; of many decades the ones alone.
  static void percent_ticks(double least, double most) {
    std::vector<double> at;
    std::vector<std::string> words;
    const bool many = most / least > 1000;
    for (int decade = -9; decade <= 0; ++decade)
      for (const int digit : {1, 2, 5}) {
        const double share = digit * std::pow(10.0, decade);
        if (share < least || share > most || (many && digit > 1)) continue;
        at.push_back(share);
        words.push_back(state::share_tick_text(share));
      }
    if (at.empty()) return;
    std::vector<const char*> labels;
    for (const std::string& word : words) labels.push_back(word.c_str());
    ImPlot::SetupAxisTicks(ImAxis_Y1, at.data(), static_cast<int>(at.size()), labels.data());
  }

  void plot_ui(DrawContext& context, const Relevance& result, const Wanted& wanted) {
    const QueryAnswer& answer = *result->queries;
    const float height = plot_height(context, ImGui::GetContentRegionAvail().y - 1);
    if (!ImPlot::BeginPlot("##relevance", {-1, height}, kScatterFlags)) return;
    ImPlot::SetupAxes("S_q = \u2212cos(mean query, query)",
                      fitting("largest attention given, without key 0", "attention", height),
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    const double low = answer.least_relevance, high = answer.most_relevance;
    const double pad = std::max(0.05 * (high - low), 0.005);
    // A few queries may give far more than the others: a linear axis would press those to the floor.
    const double most = std::max(0.02, answer.most_attention), least = least_attention(answer);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    const double floor = least / 1.5;
    ImPlot::SetupAxesLimits(low - pad, high + pad, floor, 1.5 * most,
                            fit_.condition(result.question.place.cell_key()));
    percent_ticks(floor, 1.5 * most);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    medians_ui(context.palette, *result, floor);
    const auto at = [&](std::size_t i) {
      return ImPlot::PlotToPixels(double{answer.geometry.relevance[i]},
                                  std::max(double{answer.geometry.max_attention[i]}, floor));
    };
    queries_ui(context, result.question.place, answer, wanted, at);
    ImPlot::PopPlotClipRect();
    hover_ui(context, result, wanted, at);
    ImPlot::EndPlot();
  }

  // Each query by the bound of the key that it attends to most: cosines lie under the diagonal.
  void theorem_ui(DrawContext& context, const Relevance& result, const Wanted& wanted) {
    const QueryAnswer& answer = *result->queries;
    if (std::isinf(result->least_slack)) {
      widgets::empty_ui(context.palette, "No query sees a key but position 0.");
      return;
    }
    widgets::text_wrapped(
        context.palette.text,
        fmt::format("Theorem 1: cos(M, q) \u2264 1 + \u03B1\u03B2 \u2212 (\u03B1\u00B2 + "
                    "\u03B2\u00B2)/2, M the mean query, k the key that q attends to most "
                    "(position 0 aside), \u03B1 = cos(M, k), \u03B2 = cos(k, q). Least slack "
                    "{:.3g}; \u03B1 < 0 < \u03B2, as the paper asks, for {} of {} queries.",
                    result->least_slack, result->num_premise, answer.num_queries()));
    const float height = plot_height(context, ImGui::GetContentRegionAvail().y - 1);
    if (!ImPlot::BeginPlot("##theorem", {-1, height}, kScatterFlags)) return;
    ImPlot::SetupAxes("bound", fitting("cos(mean query, query) = \u2212S_q", "\u2212S_q", height),
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    double low = -answer.most_relevance, high = -answer.least_relevance, least_bound = 1;
    for (const float bound : result->bound)
      if (!std::isnan(bound)) {
        least_bound = std::min(least_bound, double{bound});
        high = std::max(high, double{bound});
      }
    low = std::min(low, least_bound);
    const double pad = std::max(0.05 * (high - low), 0.005);
    ImPlot::SetupAxesLimits(least_bound - pad, high + pad, low - pad, high + pad,
                            fit_.condition(result.question.place.cell_key() + "|theorem"));
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    ImPlot::GetPlotDrawList()->AddLine(
        ImPlot::PlotToPixels(low - pad, low - pad), ImPlot::PlotToPixels(high + pad, high + pad),
        widgets::with_alpha(context.palette.text, 0.55F), widgets::em(0.12F));
    // Without a key it stands nowhere.
    const auto at = [&](std::size_t i) {
      const double bound = std::isnan(result->bound[i]) ? low - 9 : double{result->bound[i]};
      return ImPlot::PlotToPixels(bound, -double{answer.geometry.relevance[i]});
    };
    queries_ui(context, result.question.place, answer, wanted, at);
    ImPlot::PopPlotClipRect();
    hover_ui(context, result, wanted, at);
    ImPlot::EndPlot();
  }

  // `at`: where a query stands, in pixels.
  template <typename At>
  static void hover_ui(DrawContext& context, const Relevance& result, const Wanted& wanted,
                       const At& at) {
    if (!ImPlot::IsPlotHovered() || context.figure) return;
    float near = widgets::em(0.8F);
    const int query = nearest_to_mouse(result->queries->num_queries(), at, near);
    if (query >= 0) point_at(context, result, wanted, static_cast<std::size_t>(query));
  }

  static void point_at(DrawContext& context, const Relevance& result, const Wanted& wanted,
                       std::size_t query) {
    const state::Place& place = result.question.place;
    const std::int32_t position = place.chunk_info().begin + static_cast<std::int32_t>(query);
    query_tooltip(place, *result->queries, wanted, query);
    point_at_query(context, place, position);
    if (plot_clicked() && !result.stale) choose_query(context, place, position);
  }

  state::LastAnswer<QueryRelevanceQuestion> shown_;
  ContentFit fit_;
};

}  // namespace

std::unique_ptr<Panel> make_query_relevance_panel() {
  return std::make_unique<QueryRelevancePanel>();
}

}  // namespace kvloupe::panels
