// query_geometry: the chunk's queries and the keys of one head in their first two principal
// components, with the mean query, S_q as colour and the chosen queries ringed.
#include "app/panels/query_scatter.h"

namespace kvloupe::panels {
namespace {

using state::Place;
using state::QueryGeometryQuestion;
using Geometry = state::Result<QueryGeometryQuestion>;

ImVec2 pixel_of(const std::array<float, 3>& point) {
  return ImPlot::PlotToPixels(double{point[0]}, double{point[1]});
}

class QueryGeometryPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    state::Workspace& workspace = context.workspace;
    const Geometry result = shown_.ask(workspace, {workspace.place(), workspace.method()});
    const Place& place = result.question.place;
    widgets::figure_head_ui(
        context.palette, context.figure, "Query geometry", "", place_caption(place),
        result ? query_chips(context, place, *result) : trace_chips(context, place));
    if (!ready_ui(context, result, "Fitting the principal components")) return;
    if (result->num_queries() == 0) {
      widgets::empty_ui(context.palette, "The chunk has no queries.");
      return;
    }
    const Wanted wanted = wanted_by(context, place);
    legend(context, place, *result, wanted);
    plot_ui(context, result, wanted);
  }

 private:
  static void legend(DrawContext& context, const Place& place, const QueryAnswer& answer,
                     const Wanted& wanted) {
    const widgets::Palette& palette = context.palette;
    widgets::color_scale_ui(palette, relevance_color, fmt::format("{:.2f}", answer.least_relevance),
                            fmt::format("{:.2f}", answer.most_relevance), "S_q of a query",
                            std::min(widgets::em(7), ImGui::GetContentRegionAvail().x / 4));
    beside_ui(widgets::em(1.2F), widgets::em(11));
    using Shape = widgets::LegendItem::Shape;
    std::vector<widgets::LegendItem> items;
    add_rings(palette, place, answer, wanted, items);
    items.push_back({"mean query", palette.miss, Shape::Triangle});
    items.push_back({"key", palette.faint, Shape::Dot});
    items.push_back({"key 0 (sink)", palette.sink, Shape::Dot});
    items.push_back({"watched key", palette.recent, Shape::Dot});
    widgets::legend_ui(palette, items);
  }

  static std::string axis_name(const analysis::QueryGeometry& g, std::size_t component) {
    return component < g.pca.explained.size()
               ? fmt::format("PC {} ({:.1f} % of variance)", component + 1,
                             100 * g.pca.explained[component])
               : fmt::format("PC {}", component + 1);
  }

  void plot_ui(DrawContext& context, const Geometry& result, const Wanted& wanted) {
    const analysis::QueryGeometry& g = result->geometry;
    ImVec2 room = ImGui::GetContentRegionAvail();
    room.y = plot_height(context, room.y);
    if (!ImPlot::BeginPlot("##geometry", {-1, room.y - 1}, kScatterFlags | ImPlotFlags_Equal))
      return;
    const std::string across = axis_name(g, 0), up = axis_name(g, 1);
    ImPlot::SetupAxes(across.c_str(), fitting(up.c_str(), "PC 2", room.y),
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    fit(result,
        std::max(room.x - widgets::em(4.5F), 1.0F) / std::max(room.y - widgets::em(3.4F), 1.0F));
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    keys_ui(context, result);
    queries_ui(context, result.question.place, *result, wanted,
               [&](std::size_t i) { return pixel_of(g.queries[i]); });
    mean_ui(context.palette, pixel_of(g.mean_query));
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, result, wanted);
    ImPlot::EndPlot();
  }

  static void keys_ui(DrawContext& context, const Geometry& result) {
    const analysis::QueryGeometry& g = result->geometry;
    const auto span = state::watched_span(result.question.place);
    for (std::size_t i = 0; i < g.keys.size(); ++i) {
      const std::int32_t key = g.key_positions[i];
      const bool watched = span && key >= span->begin && key < span->end;
      const ImU32 color = key == 0  ? context.palette.sink
                          : watched ? context.palette.recent
                                    : widgets::with_alpha(context.palette.faint, 0.5F);
      ImPlot::GetPlotDrawList()->AddCircleFilled(
          pixel_of(g.keys[i]), std::max(1.2F, widgets::em(key == 0 || watched ? 0.3F : 0.13F)),
          color);
    }
  }

  static void mean_ui(const widgets::Palette& palette, ImVec2 mean) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const float r = widgets::em(0.55F);
    const ImVec2 left(mean.x - r, mean.y - r), right(mean.x + r, mean.y - r),
        foot(mean.x, mean.y + r);
    draw->AddTriangleFilled(left, right, foot, palette.miss);
    draw->AddTriangle(left, right, foot, palette.panel, widgets::em(0.1F));
  }

  // The points of another cell are framed anew; afterwards pan and zoom belong to the user.
  void fit(const Geometry& result, double aspect) {
    // One unit is as long on both axes: the shorter side grows to the plot's shape.
    const double width = 1.14 * (result->right - result->left) + 1e-6;
    const double height = 1.14 * (result->top - result->bottom) + 1e-6;
    const double half_x = std::max(width, height * aspect) / 2;
    const double half_y = std::max(height, width / aspect) / 2;
    const double x = (result->left + result->right) / 2, y = (result->bottom + result->top) / 2;
    ImPlot::SetupAxesLimits(x - half_x, x + half_x, y - half_y, y + half_y,
                            fit_.condition(result.question.place.cell_key()));
  }

  static void point_at(DrawContext& context, const Geometry& result, const Wanted& wanted) {
    const analysis::QueryGeometry& g = result->geometry;
    const Place& place = result.question.place;
    float near = widgets::em(0.7F);
    const int query = nearest_to_mouse(
        g.queries.size(), [&](std::size_t i) { return pixel_of(g.queries[i]); }, near);
    const int key = nearest_to_mouse(
        g.keys.size(), [&](std::size_t i) { return pixel_of(g.keys[i]); }, near);
    const bool clicked = plot_clicked() && !result.stale;
    if (key >= 0) {
      const std::int32_t position = g.key_positions[static_cast<std::size_t>(key)];
      ImGui::SetTooltip("key %s", token_line(place, position).c_str());
      if (clicked) context.workspace.cursor.set_keys(position, position + 1);
    } else if (query >= 0) {
      query_tooltip(place, *result, wanted, static_cast<std::size_t>(query));
      if (clicked) choose_query(context, place, static_cast<std::size_t>(query));
    }
  }

  state::LastAnswer<QueryGeometryQuestion> shown_;
  ContentFit fit_{3};  // the first frames do not know the plot's shape yet
};

}  // namespace

std::unique_ptr<Panel> make_query_geometry_panel() {
  return std::make_unique<QueryGeometryPanel>();
}

}  // namespace kvloupe::panels
