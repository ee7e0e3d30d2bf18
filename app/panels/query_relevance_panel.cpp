// query_relevance: S_q of each query against the largest attention that it gives. Where the cloud
// rises, queries far from the mean query are the ones that matter.
#include "app/panels/query_scatter.h"
#include "app/state/questions/query_relevance.h"

namespace kvloupe::panels {
namespace {

using state::Place;
using state::QueryRelevanceQuestion;
using Relevance = state::Result<QueryRelevanceQuestion>;

class QueryRelevancePanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
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
    legend(context, place, *result);
    plot_ui(context, result);
  }

 private:
  static void legend(DrawContext& context, const Place& place,
                     const QueryRelevanceQuestion::Answer& answer) {
    using Shape = widgets::LegendItem::Shape;
    std::vector<widgets::LegendItem> items{
        {"query", widgets::sequential_color(context.palette, 0.6), Shape::Dot}};
    add_rings(context.palette, place, *answer.queries, items);
    if (answer.line) items.push_back({"least-squares line", context.palette.miss, Shape::Line});
    widgets::legend_ui(context.palette, items);
  }

  void plot_ui(DrawContext& context, const Relevance& result) {
    const QueryAnswer& answer = *result->queries;
    if (!ImPlot::BeginPlot("##relevance", {-1, -1}, kScatterFlags)) return;
    ImPlot::SetupAxes("S_q = \u2212cos(mean query, query)", "largest attention given",
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    const double low = answer.least_relevance, high = answer.most_relevance;
    const double pad = std::max(0.05 * (high - low), 0.005);
    ImPlot::SetupAxesLimits(low - pad, high + pad, 0, std::max(0.02, 1.08 * answer.most_attention),
                            fit_.condition(result.question.place.cell_key()));
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    if (result->line)
      ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(low, result->line->at(low)),
                                         ImPlot::PlotToPixels(high, result->line->at(high)),
                                         widgets::with_alpha(context.palette.miss, 0.8F),
                                         widgets::em(0.12F));
    const auto at = [&](std::size_t i) {
      return ImPlot::PlotToPixels(double{answer.geometry.relevance[i]},
                                  double{answer.geometry.max_attention[i]});
    };
    queries_ui(context, result.question.place, answer, at);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) {
      float near = widgets::em(0.8F);
      const int query = nearest_to_mouse(answer.num_queries(), at, near);
      if (query >= 0) point_at(context, result, static_cast<std::size_t>(query));
    }
    ImPlot::EndPlot();
  }

  static void point_at(DrawContext& context, const Relevance& result, std::size_t query) {
    query_tooltip(result.question.place, *result->queries, query);
    if (plot_clicked() && !result.stale) choose_query(context, result.question.place, query);
  }

  state::Shown<QueryRelevanceQuestion> shown_;
  ContentFit fit_;
};

}  // namespace

std::unique_ptr<Panel> make_query_relevance_panel() {
  return std::make_unique<QueryRelevancePanel>();
}

}  // namespace kvloupe::panels
