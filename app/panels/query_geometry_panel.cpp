// query_geometry: the chunk's queries and the keys of one head in their first two principal
// components, with the mean query, S_q as colour and the chosen queries ringed.
#include <fmt/format.h>

#include "app/panels/query_scatter.h"

#include "core/base/units.h"

#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::QueryGeometry;

class QueryGeometryPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto geometry = workspace.query_geometry();
    widgets::figure_head_ui(context.palette, context.figure, "Query geometry", "",
                            place_caption(workspace),
                            geometry ? query_chips(context, *geometry) : trace_chips(context));
    if (!ready_ui(context, geometry, "Fitting the principal components")) return;
    const QueryGeometry& g = *geometry;
    if (g.queries.empty()) {
      widgets::empty_ui(context.palette, "The chunk has no queries.");
      return;
    }
    const RelevanceRange range(g.relevance);
    legend(context, range);
    plot_ui(context, g, range);
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"kind", "position", "pc1", "pc2", "s_q", "max_attention", "chosen"}, {}};
    const auto geometry = workspace.query_geometry();
    if (!geometry) return table;
    const std::int32_t begin = workspace.chunk().begin;
    const auto add = [&](const char* kind, const std::string& position,
                         const std::array<float, 3>& p, const std::string& s, const std::string& a,
                         const std::string& chosen) {
      table.rows.push_back({kind, position, cell(double{p[0]}), cell(double{p[1]}), s, a, chosen});
    };
    for (std::size_t i = 0; i < geometry->queries.size(); ++i)
      add("query", cell(begin + static_cast<std::int64_t>(i)), geometry->queries[i],
          cell(double{geometry->relevance[i]}), cell(double{geometry->max_attention[i]}),
          geometry->is_chosen(i) ? "1" : "0");
    for (std::size_t i = 0; i < geometry->keys.size(); ++i)
      add("key", cell(std::int64_t{geometry->key_positions[i]}), geometry->keys[i], "", "", "");
    add("mean_query", "", geometry->mean_query, "", "", "");
    return table;
  }

  Array array(state::Workspace& workspace) override {
    const auto geometry = workspace.query_geometry();
    if (!geometry) return {};
    std::vector<float> values;
    for (const auto& query : geometry->queries)
      values.insert(values.end(), query.begin(), query.begin() + 2);
    return array_of("<f4", {static_cast<std::int64_t>(geometry->queries.size()), 2}, values);
  }

  std::string problem(state::Workspace& workspace) override {
    return problem_of(workspace.query_geometry());
  }

 private:
  static void legend(DrawContext& context, const RelevanceRange& range) {
    widgets::color_scale_ui(
        context.palette,
        [](const widgets::Palette& p, double t) {
          return widgets::sequential_color(p, 0.22 + 0.78 * t);
        },
        fmt::format("{:.2f}", range.low), fmt::format("{:.2f}", range.high), "S_q of a query",
        widgets::em(7));
    ImGui::SameLine(0, widgets::em(1.2F));
    using Shape = widgets::LegendItem::Shape;
    widgets::legend_ui(context.palette, {{"chosen query", context.palette.text, Shape::Ring},
                                         {"mean query", context.palette.miss, Shape::Triangle},
                                         {"key", context.palette.faint, Shape::Dot},
                                         {"key 0 (sink)", context.palette.sink, Shape::Dot},
                                         {"watched key", context.palette.recent, Shape::Dot}});
  }

  static std::string axis_name(const QueryGeometry& g, std::size_t component) {
    return component < g.pca.explained.size()
               ? fmt::format("PC {} ({:.1f} % of variance)", component + 1,
                             100 * g.pca.explained[component])
               : fmt::format("PC {}", component + 1);
  }

  void plot_ui(DrawContext& context, const QueryGeometry& g, const RelevanceRange& range) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect | ImPlotFlags_Equal;
    const ImVec2 room = ImGui::GetContentRegionAvail();
    if (!ImPlot::BeginPlot("##geometry", {-1, -1}, kFlags)) return;
    ImPlot::SetupAxes(axis_name(g, 0).c_str(), axis_name(g, 1).c_str(), ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight);
    fit(g, (room.x - widgets::em(4.5F)) / std::max(room.y - widgets::em(3.4F), 1.0F));
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    const auto pixel = [](const std::array<float, 3>& p) {
      return ImPlot::PlotToPixels(double{p[0]}, double{p[1]});
    };
    const auto span = context.workspace.watched_span();
    for (std::size_t i = 0; i < g.keys.size(); ++i) {
      const std::int32_t key = g.key_positions[i];
      const bool watched = span && key >= span->begin && key < span->end;
      const ImU32 color = key == 0  ? context.palette.sink
                          : watched ? context.palette.recent
                                    : widgets::with_alpha(context.palette.faint, 0.5F);
      draw->AddCircleFilled(pixel(g.keys[i]),
                            std::max(1.2F, widgets::em(key == 0 || watched ? 0.3F : 0.13F)), color);
    }
    for (const int pass : {0, 1})  // the chosen ones on top
      for (std::size_t i = 0; i < g.queries.size(); ++i)
        if (g.is_chosen(i) == (pass == 1))
          query_mark(draw, context, pixel(g.queries[i]),
                     range.color(context.palette, g.relevance[i]), pass == 1);
    const ImVec2 mean = pixel(g.mean_query);
    const float r = widgets::em(0.55F);
    draw->AddTriangleFilled({mean.x - r, mean.y - r}, {mean.x + r, mean.y - r},
                            {mean.x, mean.y + r}, context.palette.miss);
    draw->AddTriangle({mean.x - r, mean.y - r}, {mean.x + r, mean.y - r}, {mean.x, mean.y + r},
                      context.palette.panel, widgets::em(0.1F));
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, g);
    ImPlot::EndPlot();
  }

  // New data are framed anew; afterwards pan and zoom belong to the user.
  void fit(const QueryGeometry& g, float aspect) {
    std::array<double, 4> box{1e30, -1e30, 1e30, -1e30};
    const auto grow = [&](const std::array<float, 3>& p) {
      box = {std::min(box[0], double{p[0]}), std::max(box[1], double{p[0]}),
             std::min(box[2], double{p[1]}), std::max(box[3], double{p[1]})};
    };
    for (const auto& p : g.queries) grow(p);
    for (const auto& p : g.keys) grow(p);
    grow(g.mean_query);
    // One unit is as long on both axes: the shorter side grows to the plot's shape.
    const double width = 1.14 * (box[1] - box[0]) + 1e-6, height = 1.14 * (box[3] - box[2]) + 1e-6;
    const double half_x = std::max(width, height * aspect) / 2,
                 half_y = std::max(height, width / aspect) / 2;
    const double x = (box[0] + box[1]) / 2, y = (box[2] + box[3]) / 2;
    // Set for two frames: the first one does not know the plot's size yet.
    if (box != fitted_) frames_to_fit_ = 3;
    fitted_ = box;
    const ImPlotCond when = frames_to_fit_-- > 0 ? ImPlotCond_Always : ImPlotCond_Once;
    frames_to_fit_ = std::max(frames_to_fit_, 0);
    ImPlot::SetupAxesLimits(x - half_x, x + half_x, y - half_y, y + half_y, when);
  }

  static void point_at(DrawContext& context, const QueryGeometry& g) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto distance = [&](const std::array<float, 3>& p) {
      const ImVec2 at = ImPlot::PlotToPixels(double{p[0]}, double{p[1]});
      return std::hypot(at.x - mouse.x, at.y - mouse.y);
    };
    float best = widgets::em(0.7F);
    int query = -1, key = -1;
    for (std::size_t i = 0; i < g.queries.size(); ++i)
      if (const float d = distance(g.queries[i]); d < best) best = d, query = static_cast<int>(i);
    for (std::size_t i = 0; i < g.keys.size(); ++i)
      if (const float d = distance(g.keys[i]); d < best)
        best = d, key = static_cast<int>(i), query = -1;
    auto& workspace = context.workspace;
    if (query >= 0) {
      const auto i = static_cast<std::size_t>(query);
      const std::int32_t position = workspace.chunk().begin + query;
      ImGui::SetTooltip(
          "query %s\nS_q %.4f\nlargest attention %.4f\n%s", token_line(workspace, position).c_str(),
          static_cast<double>(g.relevance[i]), static_cast<double>(g.max_attention[i]),
          g.is_chosen(i) ? "chosen" : "not chosen");
      if (ImGui::IsMouseReleased(ImGuiMouseButton_Left))
        workspace.change("query", [&](state::Selection& s) { s.query = position; });
    } else if (key >= 0) {
      const std::int32_t position = g.key_positions[static_cast<std::size_t>(key)];
      ImGui::SetTooltip("key %s", token_line(workspace, position).c_str());
      if (ImGui::IsMouseReleased(ImGuiMouseButton_Left))
        workspace.set_key_span(position, position + 1);
    }
  }

  std::array<double, 4> fitted_{};
  int frames_to_fit_ = 0;
};

}  // namespace

std::unique_ptr<Panel> make_query_geometry_panel() {
  return std::make_unique<QueryGeometryPanel>();
}

}  // namespace kvloupe::panels
