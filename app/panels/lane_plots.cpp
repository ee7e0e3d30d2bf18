// See lane_plots.h.
#include "app/panels/lane_plots.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::BasisLoss;
using analysis::LaneChoice;
using analysis::LaneReport;

struct Series {
  std::vector<double> loss;
  LaneChoice choice = LaneChoice::Magnitude;
};

// The lines of one plot: of keys, or the mean over the group's query heads.
std::vector<Series> series_of(const LaneReport& r, const BasisLoss& basis, bool of_keys) {
  std::vector<Series> series;
  for (const LaneChoice choice : {LaneChoice::Magnitude, LaneChoice::Leading}) {
    if (!of_keys) {
      series.push_back({r.group_mean(basis, false, choice), choice});
    } else if (const auto* curve = r.find(basis, true, choice, -1)) {
      series.push_back({curve->loss, choice});
    }
  }
  if (of_keys)
    series.push_back({r.group_mean(basis, true, LaneChoice::QueryLanes), LaneChoice::QueryLanes});
  return series;
}

// Common to both bases, so that they can be compared by eye.
double top_of(const LaneReport& r, bool of_keys) {
  double top = 1e-3;
  for (const BasisLoss& basis : r.bases)
    for (const Series& line : series_of(r, basis, of_keys))
      for (const double loss : line.loss) top = std::max(top, loss);
  return top;
}

int percent_tick(double value, char* buffer, int size, void*) {
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%g %%", value * 100);
}

void line_ui(ImDrawList* draw, const std::vector<int>& kept, const std::vector<double>& loss,
             ImU32 color, float width) {
  std::vector<ImVec2> points;
  for (std::size_t i = 0; i < kept.size(); ++i)
    points.push_back(ImPlot::PlotToPixels(kept[i], loss[i]));
  draw->AddPolyline(points.data(), static_cast<int>(points.size()), color, 0, width);
}

// The values at k, in the upper right corner, where falling curves leave room.
void values_at_k_ui(DrawContext& context, ImDrawList* draw, const LaneReport& r,
                    const std::vector<Series>& lines) {
  const widgets::FontScope small(widgets::fonts().body, 0.88F);
  const ImVec2 at = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  float y = at.y + widgets::em(0.4F);
  const auto text_ui = [&](const std::string& text, ImU32 color) {
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    const float x = at.x + size.x - width - widgets::em(0.5F);
    draw->AddRectFilled({x - 2, y}, {x + width + 2, y + ImGui::GetTextLineHeight()},
                        widgets::with_alpha(context.palette.panel, 0.85F));
    draw->AddText({x, y}, color, text.c_str());
    y += ImGui::GetTextLineHeightWithSpacing();
  };
  text_ui(fmt::format("at {} lanes", r.kept_lanes), context.palette.muted);
  for (const Series& line : lines)
    text_ui(percent(line.loss[r.kept_index()]), loss_color(context.palette, line.choice));
}

void lane_tooltip(DrawContext& context, const LaneReport& r, const MapPlotHit& hit) {
  const int head = static_cast<int>(hit.row), lane = static_cast<int>(hit.col);
  if (hit.clicked) context.workspace.set_q_head(head);
  ImGui::SetTooltip("query head %d, lane %d\nused by %d of %d rows (%s)\n%s", head, lane,
                    r.counts[static_cast<std::size_t>(head * r.head_dim + lane)], r.span.length,
                    percent(r.use_of(head, lane)).c_str(),
                    lane >= r.stored_lanes ? "dropped before caching"
                    : lane < r.kept_lanes  ? "kept by static slicing"
                                           : "cut by static slicing");
}

}  // namespace

ImU32 loss_color(const widgets::Palette& palette, LaneChoice choice) {
  switch (choice) {
    case LaneChoice::Magnitude:
      return palette.hit;
    case LaneChoice::Leading:
      return palette.miss;
    case LaneChoice::QueryLanes:
      return palette.recent;
  }
  return palette.text;
}

void lane_map_ui(DrawContext& context, const LaneReport& r, widgets::MapTexture& texture,
                 ImVec2 size) {
  const auto fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    for (int y = 0; y < window.height; ++y)
      for (int x = 0; x < window.width; ++x) {
        const auto rows = widgets::MapTexture::cells_of_pixel(window.row_begin, window.row_end,
                                                              window.height, y, r.num_q_heads);
        const auto cols = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                              window.width, x, r.head_dim);
        double use = 0;
        for (std::int64_t row = rows.first; row < rows.second; ++row)
          for (std::int64_t col = cols.first; col < cols.second; ++col)
            use = std::max(use, r.use_of(static_cast<int>(row), static_cast<int>(col)));
        pixels[static_cast<std::size_t>(y) * window.width + x] =
            widgets::sequential_color(context.palette, use);
      }
  };
  MapPlotSpec spec;
  spec.id = "##lane use";
  spec.x_label = "lane of the rotated query (by falling variance)";
  spec.y_label = "query head";
  spec.rows = r.num_q_heads;
  spec.cols = r.head_dim;
  spec.size = size;
  spec.row_ticks = true;
  spec.content_key = fmt::format("{}|L{}|c{}|{}", r.method, r.layer, r.chunk,
                                 static_cast<int>(context.palette.kind));
  spec.fill = fill;
  const auto hit = map_plot_ui(context, spec, texture, [&] {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const auto border = [&](double lane, ImU32 color) {
      const ImVec2 top = ImPlot::PlotToPixels(lane, 0);
      const ImVec2 bottom = ImPlot::PlotToPixels(lane, r.num_q_heads);
      draw->AddLine(top, bottom, context.palette.panel, widgets::em(0.32F));
      draw->AddLine(top, bottom, color, widgets::em(0.16F));
    };
    ImPlot::PushPlotClipRect();
    border(r.kept_lanes, loss_color(context.palette, LaneChoice::Leading));
    if (r.stored_lanes < r.head_dim) border(r.stored_lanes, context.palette.text);
    const int head = context.workspace.selection().q_head;
    const auto frame = [&](ImU32 color, float width) {
      draw->AddRect(ImPlot::PlotToPixels(0, head), ImPlot::PlotToPixels(r.head_dim, head + 1),
                    color, 0, 0, std::max(1.0F, widgets::em(width)));
    };
    frame(context.palette.panel, 0.27F);  // so that it shows on any colour
    frame(context.palette.text, 0.09F);
    ImPlot::PopPlotClipRect();
  });
  if (hit) lane_tooltip(context, r, *hit);
}

void score_errors_ui(DrawContext& context, const LaneReport& r, ImVec2 size) {
  const auto& p = context.palette;
  const auto id_of = [](const std::string& spec) { return spec.substr(0, spec.find(':')); };
  const bool magnitude = id_of(r.method) != "static_slicing";
  const ImU32 own = loss_color(p, magnitude ? LaneChoice::Magnitude : LaneChoice::Leading);
  const ImU32 other = loss_color(p, magnitude ? LaneChoice::Leading : LaneChoice::Magnitude);
  widgets::legend_ui(p, {{id_of(r.method), own}, {id_of(r.twin) + ", as many lanes", other}});
  size.y = std::max(widgets::em(6), ImGui::GetContentRegionAvail().y);
  constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly;
  if (!ImPlot::BeginPlot("##score error", size, kFlags)) return;
  double top = 1e-3;
  for (const auto* errors : {&r.score_error, &r.twin_score_error})
    for (const double error : *errors) top = std::max(top, error);
  ImPlot::SetupAxes("query head", nullptr, ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, -0.5, r.num_q_heads - 0.5, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, top * 1.2, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const widgets::FontScope small(widgets::fonts().mono, 0.78F);
  const auto bar = [&](double from, double to, double error, ImU32 color) {
    const ImVec2 a = ImPlot::PlotToPixels(from, error), b = ImPlot::PlotToPixels(to, 0);
    draw->AddRectFilled({a.x, std::min(a.y, b.y - 1)}, b, color, 1);
    const std::string text = fmt::format("{:.{}f}", error * 100, error < 0.0995 ? 1 : 0);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    if (width < (b.x - a.x) * 1.2F)
      draw->AddText({(a.x + b.x - width) / 2, a.y - ImGui::GetTextLineHeight()}, p.muted,
                    text.c_str());
  };
  const int shown = context.workspace.selection().q_head;
  draw->AddRectFilled(ImPlot::PlotToPixels(shown - 0.5, top * 1.2),
                      ImPlot::PlotToPixels(shown + 0.5, 0), widgets::with_alpha(p.accent, 0.12F));
  for (int head = 0; head < r.num_q_heads; ++head) {
    bar(head - 0.4, head, r.score_error[static_cast<std::size_t>(head)], own);
    bar(head, head + 0.4, r.twin_score_error[static_cast<std::size_t>(head)], other);
  }
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const int head =
        std::clamp(static_cast<int>(ImPlot::GetPlotMousePos().x + 0.5), 0, r.num_q_heads - 1);
    ImGui::SetTooltip("query head %d\n%s %.5f\n%s %.5f", head, id_of(r.method).c_str(),
                      r.score_error[static_cast<std::size_t>(head)], id_of(r.twin).c_str(),
                      r.twin_score_error[static_cast<std::size_t>(head)]);
    if (plot_clicked()) context.workspace.set_q_head(head);
  }
  ImPlot::EndPlot();
}

void loss_plot_ui(DrawContext& context, const LaneReport& r, std::size_t basis, bool of_keys,
                  ImVec2 size) {
  const auto& p = context.palette;
  const BasisLoss& in = r.bases[basis];
  constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly;
  const TickRoom room;
  if (!ImPlot::BeginPlot("##loss", size, kFlags)) return;
  const std::string what = of_keys
                               ? fmt::format("K, KV head {}", r.kv_head)
                               : fmt::format("Q, heads {} to {}", r.kv_head * r.q_heads_per_kv_head,
                                             (r.kv_head + 1) * r.q_heads_per_kv_head - 1);
  ImPlot::SetupAxes(of_keys ? nullptr : "lanes kept", what.c_str(), ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, r.head_dim, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, top_of(r, of_keys) * 1.05, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  draw->AddLine(ImPlot::PlotToPixels(r.kept_lanes, limits.Y.Max),
                ImPlot::PlotToPixels(r.kept_lanes, 0), p.faint, std::max(1.0F, widgets::em(0.08F)));
  for (const analysis::LossCurve& curve : in.curves)
    if (curve.q_head >= 0 && curve.of_keys == of_keys)
      line_ui(draw, r.kept, curve.loss, widgets::with_alpha(loss_color(p, curve.choice), 0.35F),
              std::max(1.0F, widgets::em(0.06F)));
  const std::vector<Series> lines = series_of(r, in, of_keys);
  for (const Series& line : lines) {
    line_ui(draw, r.kept, line.loss, loss_color(p, line.choice), widgets::em(0.17F));
    draw->AddCircleFilled(ImPlot::PlotToPixels(r.kept_lanes, line.loss[r.kept_index()]),
                          widgets::em(0.25F), loss_color(p, line.choice));
  }
  values_at_k_ui(context, draw, r, lines);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const auto at = std::lower_bound(r.kept.begin(), r.kept.end(),
                                     static_cast<int>(ImPlot::GetPlotMousePos().x + 0.5));
    if (at != r.kept.end()) {
      std::string text = fmt::format("{} lanes kept", *at);
      for (const Series& line : lines)
        text += fmt::format("\n{}: {:.5f}", analysis::name_of(line.choice),
                            line.loss[static_cast<std::size_t>(at - r.kept.begin())]);
      ImGui::SetTooltip("%s", text.c_str());
    }
  }
  ImPlot::EndPlot();
}

std::vector<std::string> lane_columns() {
  return {"quantity", "method", "basis", "leakage", "vectors",
          "q_head",   "choice", "lanes", "value"};
}

Table lane_table(const LaneReport& r) {
  Table table{lane_columns(), {}};
  const auto add = [&](const std::string& quantity, const std::string& method,
                       const replay::BasisNote& basis, const std::string& vectors, int q_head,
                       const std::string& choice, int lanes, const std::string& value) {
    table.rows.push_back({quantity, method, basis.source, basis.leakage ? "1" : "0", vectors,
                          q_head >= 0 ? cell(std::int64_t{q_head}) : "", choice,
                          lanes >= 0 ? cell(std::int64_t{lanes}) : "", value});
  };
  for (int head = 0; head < r.num_q_heads; ++head)
    for (int lane = 0; lane < r.head_dim; ++lane)
      add("lane_use", r.method, r.basis, "q", head, "", lane, cell(r.use_of(head, lane)));
  for (int head = 0; head < r.num_q_heads; ++head) {
    const auto i = static_cast<std::size_t>(head);
    add("score_error", r.method, r.basis, "", head, "", r.kept_lanes, cell(r.score_error[i]));
    add("score_error", r.twin, r.basis, "", head, "", r.kept_lanes, cell(r.twin_score_error[i]));
  }
  for (const BasisLoss& basis : r.bases) {
    if (!basis.note) continue;
    for (const analysis::LossCurve& curve : basis.curves)
      for (std::size_t i = 0; i < r.kept.size(); ++i)
        add(curve.choice == LaneChoice::QueryLanes ? "key_loss_under_query_lanes"
                                                   : "information_retention_loss",
            "", *basis.note, curve.of_keys ? "k" : "q", curve.q_head,
            analysis::name_of(curve.choice), r.kept[i], cell(curve.loss[i]));
  }
  const auto even = analysis::break_even(r.head_dim, r.kept_lanes);
  const auto memory = analysis::lane_memory(r.head_dim, r.stored_lanes);
  const auto number = [](const std::optional<double>& value) {
    return value ? cell(*value) : std::string("inf");
  };
  add("break_even_one_projection", r.method, r.basis, "", -1, "", r.kept_lanes,
      number(even.one_projection));
  add("break_even_two_projections", r.method, r.basis, "", -1, "", r.kept_lanes,
      number(even.two_projections));
  add("memory_saved_of_keys", r.method, r.basis, "", -1, "", r.stored_lanes, cell(memory.of_keys));
  add("memory_saved_of_kv_cache", r.method, r.basis, "", -1, "", r.stored_lanes,
      cell(memory.of_kv_cache));
  return table;
}

}  // namespace kvloupe::panels
