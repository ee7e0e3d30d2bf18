// query_relevance: S_q of each query against the largest attention that it gives. Where the cloud
// rises, queries far from the mean query are the ones that matter.
#include <fmt/format.h>

#include "app/panels/query_scatter.h"

#include <cmath>
#include <numeric>

namespace kvloupe::panels {
namespace {

using analysis::QueryGeometry;

class QueryRelevancePanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto geometry = workspace.query_geometry();
    widgets::figure_head_ui(context.palette, context.figure, "Query relevance", "",
                            place_caption(workspace),
                            geometry ? query_chips(context, *geometry) : trace_chips(context));
    if (!ready_ui(context, geometry, "Measuring the queries")) return;
    if (geometry->relevance.empty()) {
      widgets::empty_ui(context.palette, "The chunk has no queries.");
      return;
    }
    using Shape = widgets::LegendItem::Shape;
    widgets::legend_ui(context.palette,
                       {{"query", widgets::sequential_color(context.palette, 0.6), Shape::Dot},
                        {"chosen query", context.palette.text, Shape::Ring},
                        {"least-squares line", context.palette.miss, Shape::Line}});
    plot_ui(context, *geometry);
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"query", "token", "s_q", "max_attention", "chosen"}, {}};
    const auto g = workspace.query_geometry();
    if (!g) return table;
    for (std::size_t i = 0; i < g->relevance.size(); ++i) {
      const std::int64_t position = workspace.chunk().begin + static_cast<std::int64_t>(i);
      table.rows.push_back({cell(position),
                            workspace.ready()->token_label[static_cast<std::size_t>(position)],
                            cell(double{g->relevance[i]}), cell(double{g->max_attention[i]}),
                            g->is_chosen(i) ? "1" : "0"});
    }
    return table;
  }

  Array array(state::Workspace& workspace) override {
    const auto g = workspace.query_geometry();
    if (!g) return {};
    std::vector<float> values;
    for (std::size_t i = 0; i < g->relevance.size(); ++i) {
      values.push_back(g->relevance[i]);
      values.push_back(g->max_attention[i]);
    }
    return array_of("<f4", {static_cast<std::int64_t>(g->relevance.size()), 2}, values);
  }

  std::string problem(state::Workspace& workspace) override {
    return problem_of(workspace.query_geometry());
  }

 private:
  static void plot_ui(DrawContext& context, const QueryGeometry& g) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    if (!ImPlot::BeginPlot("##relevance", {-1, -1}, kFlags)) return;
    ImPlot::SetupAxes("S_q = \u2212cos(mean query, query)", "largest attention given",
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    const RelevanceRange range(g.relevance);
    const double pad = 0.05 * (range.high - range.low);
    const float top = *std::max_element(g.max_attention.begin(), g.max_attention.end());
    ImPlot::SetupAxesLimits(range.low - pad, range.high + pad, 0,
                            std::max(0.02, 1.08 * double{top}), ImPlotCond_Always);
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    line_ui(draw, context, g, range);
    for (const int pass : {0, 1})
      for (std::size_t i = 0; i < g.relevance.size(); ++i)
        if (g.is_chosen(i) == (pass == 1))
          query_mark(draw, context,
                     ImPlot::PlotToPixels(double{g.relevance[i]}, double{g.max_attention[i]}),
                     range.color(context.palette, g.relevance[i]), pass == 1);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, g);
    ImPlot::EndPlot();
  }

  static void line_ui(ImDrawList* draw, DrawContext& context, const QueryGeometry& g,
                      const RelevanceRange& range) {
    const auto n = static_cast<double>(g.relevance.size());
    const double mean_x = std::accumulate(g.relevance.begin(), g.relevance.end(), 0.0) / n;
    const double mean_y = std::accumulate(g.max_attention.begin(), g.max_attention.end(), 0.0) / n;
    double xy = 0, xx = 0;
    for (std::size_t i = 0; i < g.relevance.size(); ++i) {
      xy += (g.relevance[i] - mean_x) * (g.max_attention[i] - mean_y);
      xx += (g.relevance[i] - mean_x) * (g.relevance[i] - mean_x);
    }
    if (xx <= 0) return;
    const auto y = [&](double x) { return mean_y + xy / xx * (x - mean_x); };
    draw->AddLine(ImPlot::PlotToPixels(range.low, y(range.low)),
                  ImPlot::PlotToPixels(range.high, y(range.high)),
                  widgets::with_alpha(context.palette.miss, 0.8F), widgets::em(0.12F));
  }

  static void point_at(DrawContext& context, const QueryGeometry& g) {
    const ImVec2 mouse = ImGui::GetMousePos();
    float best = widgets::em(0.8F);
    int found = -1;
    for (std::size_t i = 0; i < g.relevance.size(); ++i) {
      const ImVec2 at = ImPlot::PlotToPixels(double{g.relevance[i]}, double{g.max_attention[i]});
      if (const float d = std::hypot(at.x - mouse.x, at.y - mouse.y); d < best)
        best = d, found = static_cast<int>(i);
    }
    if (found < 0) return;
    const auto i = static_cast<std::size_t>(found);
    const std::int32_t position = context.workspace.chunk().begin + found;
    ImGui::SetTooltip("query %s\nS_q %.4f\nlargest attention %.4f\n%s",
                      token_line(context.workspace, position).c_str(),
                      static_cast<double>(g.relevance[i]), static_cast<double>(g.max_attention[i]),
                      g.is_chosen(i) ? "chosen" : "not chosen");
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Left))
      context.workspace.change("query", [&](state::Selection& s) { s.query = position; });
  }
};

}  // namespace

std::unique_ptr<Panel> make_query_relevance_panel() {
  return std::make_unique<QueryRelevancePanel>();
}

}  // namespace kvloupe::panels
