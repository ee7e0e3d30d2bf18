// See lane_plots.h.
#include "app/panels/lane_plots.h"

#include "app/panels/map_plot.h"
#include "app/widgets/ink.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::LaneChoice;
using analysis::LaneReport;
using selection::method_id;
using Line = state::AquaLanesQuestion::Answer::Line;

void line_ui(ImDrawList* draw, const std::vector<int>& kept, const std::vector<double>& loss,
             ImU32 color, float width) {
  std::vector<ImVec2> points;
  for (std::size_t i = 0; i < kept.size(); ++i)
    points.push_back(ImPlot::PlotToPixels(kept[i], loss[i]));
  draw->AddPolyline(points.data(), static_cast<int>(points.size()), color, 0, width);
}

void dashed_line_ui(ImDrawList* draw, const std::vector<int>& kept, const std::vector<double>& loss,
                    ImU32 color, float width) {
  for (std::size_t i = 1; i < kept.size(); i += 2)
    draw->AddLine(ImPlot::PlotToPixels(kept[i - 1], loss[i - 1]),
                  ImPlot::PlotToPixels(kept[i], loss[i]), color, width);
}

// The values at k, in the upper right corner, where falling curves leave room; none in a plot that
// cannot hold them all.
void values_at_k_ui(DrawContext& context, ImDrawList* draw, const LaneReport& r,
                    const std::vector<Line>& lines) {
  const widgets::FontScope small(widgets::Type::Caption);
  const ImVec2 at = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  float y = at.y + widgets::em(0.4F);
  const auto num_texts = static_cast<float>(lines.size() + 1);
  if (y + num_texts * ImGui::GetTextLineHeightWithSpacing() > at.y + size.y) return;
  const auto text_ui = [&](const std::string& text, ImU32 color) {
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    const float x = at.x + size.x - width - widgets::em(0.5F);
    draw->AddRectFilled({x - 2, y}, {x + width + 2, y + ImGui::GetTextLineHeight()},
                        widgets::with_alpha(context.palette.panel, 0.85F));
    draw->AddText({x, y}, color, text.c_str());
    y += ImGui::GetTextLineHeightWithSpacing();
  };
  text_ui(fmt::format("at {} lane{}", r.kept_lanes, r.kept_lanes == 1 ? "" : "s"),
          context.palette.muted);
  for (const Line& line : lines)
    text_ui(share_text(line.loss[r.kept_index()]),
            widgets::ink_of(context.palette, loss_color(context.palette, line.choice)));
}

void fill_use(const widgets::Palette& palette, const LaneReport& r,
              const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  widgets::fill_pixels(window, r.num_q_heads, r.head_dim, pixels, [&](auto rows, auto cols) {
    double use = 0;
    for (std::int64_t row = rows.first; row < rows.second; ++row)
      for (std::int64_t col = cols.first; col < cols.second; ++col)
        use = std::max(use, r.use_of(static_cast<int>(row), static_cast<int>(col)));
    return widgets::sequential_color(palette, use);
  });
}

// The borders of the lanes kept and stored, and a frame around the query head shown.
void lane_marks_ui(DrawContext& context, const LaneReport& r, int q_head) {
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
  const ImVec2 from = ImPlot::PlotToPixels(0, q_head);
  const ImVec2 to = ImPlot::PlotToPixels(r.head_dim, q_head + 1);
  const auto frame = [&](ImU32 color, float width) {
    const float most = (to.y - from.y) / 6;  // the row itself must show
    draw->AddRect(from, to, color, 0, 0, std::max(1.0F, std::min(widgets::em(width), most)));
  };
  frame(context.palette.panel, 0.27F);  // so that it shows on any colour
  frame(context.palette.text, 0.09F);
  ImPlot::PopPlotClipRect();
}

void point_at_head(DrawContext& context, const Lanes& result, int head) {
  state::Place there = result.question.place;
  there.q_head = head;
  context.workspace.pointer.at({.place = there});
}

void point_at_lane(DrawContext& context, const Lanes& result, const MapPlotHit& hit) {
  const LaneReport& r = result->report;
  const int head = static_cast<int>(hit.row), lane = static_cast<int>(hit.col);
  if (hit.clicked && !result.stale) context.workspace.cursor.set_q_head(head);
  point_at_head(context, result, head);
  widgets::tooltip("query head %d, lane %d\nused by %d of %d row%s (%s)\n%s", head, lane,
                   r.counts[static_cast<std::size_t>(head * r.head_dim + lane)], r.span.length,
                   r.span.length == 1 ? "" : "s", share_text(r.use_of(head, lane)).c_str(),
                   lane >= r.stored_lanes ? "dropped before caching"
                   : lane < r.kept_lanes  ? "kept by static slicing"
                                          : "cut by static slicing");
}

// The bars of one query head, [from, to) on the axis of heads, and the number above where it fits.
void error_bar_ui(DrawContext& context, double from, double to, double error, ImU32 color) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 a = ImPlot::PlotToPixels(from, error), b = ImPlot::PlotToPixels(to, 0);
  draw->AddRectFilled({a.x, std::min(a.y, b.y - 1)}, b, color, 1);
  const std::string text = fmt::format("{:.{}f}", error * 100, error < 0.0995 ? 1 : 0);
  const float width = ImGui::CalcTextSize(text.c_str()).x;
  const bool fits = a.y - ImGui::GetTextLineHeight() >= ImPlot::GetPlotPos().y;
  if (fits && width < (b.x - a.x) * 1.2F)
    draw->AddText({(a.x + b.x - width) / 2, a.y - ImGui::GetTextLineHeight()},
                  context.palette.muted, text.c_str());
}

void point_at_errors(DrawContext& context, const Lanes& result) {
  const LaneReport& r = result->report;
  const int head =
      std::clamp(static_cast<int>(ImPlot::GetPlotMousePos().x + 0.5), 0, r.num_q_heads - 1);
  const auto i = static_cast<std::size_t>(head);
  point_at_head(context, result, head);
  widgets::tooltip("query head %d\n%s %s\n%s %s", head, method_id(r.method).c_str(),
                   share_text(r.score_error[i]).c_str(), method_id(r.twin).c_str(),
                   share_text(r.twin_score_error[i]).c_str());
  if (plot_clicked() && !result.stale) context.workspace.cursor.set_q_head(head);
}

// "Q, heads 3 to 5", shorter where the plot is not as tall.
std::string vectors_text(const LaneReport& r, bool of_keys, float height) {
  const int first = r.kv_head * r.q_heads_per_kv_head, last = first + r.q_heads_per_kv_head - 1;
  const std::string text = of_keys         ? fmt::format("K, KV head {}", r.kv_head)
                           : first == last ? fmt::format("Q, head {}", first)
                                           : fmt::format("Q, heads {} to {}", first, last);
  return ImGui::CalcTextSize(text.c_str()).x < height ? text : text.substr(0, 1);
}

void setup_loss_axes(const Lanes& result, bool of_keys, float height) {
  const LaneReport& r = result->report;
  const std::string what = vectors_text(r, of_keys, height - widgets::em(of_keys ? 2.5F : 4));
  ImPlot::SetupAxes(of_keys ? nullptr : "lanes kept", what.c_str(), ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, r.head_dim, ImPlotCond_Always);
  const double most = of_keys ? result->most_lost_of_keys : result->most_lost_of_queries;
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, most * 1.05, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
  ImPlot::SetupFinish();
}

void loss_tooltip(DrawContext& context, const LaneReport& r, const std::vector<Line>& lines) {
  const auto at = std::lower_bound(r.kept.begin(), r.kept.end(),
                                   static_cast<int>(ImPlot::GetPlotMousePos().x + 0.5));
  if (at == r.kept.end()) return;
  std::string text = fmt::format("{} lane{} kept", *at, *at == 1 ? "" : "s");
  std::string row = std::to_string(*at);
  for (const Line& line : lines) {
    const double loss = line.loss[static_cast<std::size_t>(at - r.kept.begin())];
    text += fmt::format("\n{}: {}", analysis::name_of(line.choice), share_text(loss));
    row += fmt::format("\t{:.6g}", loss);
  }
  context.workspace.pointer.at({.row = std::move(row)});
  widgets::tooltip("%s", text.c_str());
}

}  // namespace

ImU32 loss_color(const widgets::Palette& palette, LaneChoice choice) {
  switch (choice) {
    case LaneChoice::Magnitude: return palette.series[5];
    case LaneChoice::Leading: return palette.series[3];
    case LaneChoice::QueryLanes: return palette.series[0];  // what AQUA itself does
  }
  return palette.text;
}

void lane_map_ui(DrawContext& context, const Lanes& result, widgets::MapTexture& texture,
                 ImVec2 size) {
  const LaneReport& r = result->report;
  MapPlotSpec spec;
  spec.id = "##lane use";
  spec.x_label = fitting("lane of the rotated query (by falling variance)",
                         "lane (by falling variance)", ImGui::GetContentRegionAvail().x);
  spec.y_label = "query head";
  spec.rows = r.num_q_heads;
  spec.cols = r.head_dim;
  spec.size = size;
  spec.row_ticks = true;
  spec.content_key = result.key;
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_use(context.palette, r, window, pixels);
  };
  const int q_head = result.question.place.q_head;
  const auto hit = map_plot_ui(context, spec, texture, [&] { lane_marks_ui(context, r, q_head); });
  if (hit) point_at_lane(context, result, *hit);
}

void score_errors_ui(DrawContext& context, const Lanes& result, ImVec2 size) {
  const widgets::Palette& p = context.palette;
  const LaneReport& r = result->report;
  const bool magnitude = method_id(r.method) != "static_slicing";
  const ImU32 own = loss_color(p, magnitude ? LaneChoice::QueryLanes : LaneChoice::Leading);
  const ImU32 other = loss_color(p, magnitude ? LaneChoice::Leading : LaneChoice::QueryLanes);
  widgets::legend_ui(p,
                     {{method_id(r.method), own}, {method_id(r.twin) + ", as many lanes", other}});
  size.y = plot_height(context, std::max(widgets::em(6), ImGui::GetContentRegionAvail().y));
  if (!ImPlot::BeginPlot("##score error", size, ImPlotFlags_CanvasOnly)) return;
  const double top = result->most_score_error * 1.2;
  ImPlot::SetupAxes("query head", nullptr, ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, -0.5, r.num_q_heads - 0.5, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, top, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  const int shown = result.question.place.q_head;
  ImPlot::GetPlotDrawList()->AddRectFilled(ImPlot::PlotToPixels(shown - 0.5, top),
                                           ImPlot::PlotToPixels(shown + 0.5, 0),
                                           widgets::with_alpha(p.accent, 0.12F));
  {
    const widgets::FontScope small(widgets::Type::Caption);
    for (int head = 0; head < r.num_q_heads; ++head) {
      const auto i = static_cast<std::size_t>(head);
      error_bar_ui(context, head - 0.4, head, r.score_error[i], own);
      error_bar_ui(context, head, head + 0.4, r.twin_score_error[i], other);
    }
  }
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) point_at_errors(context, result);
  ImPlot::EndPlot();
}

void loss_plot_ui(DrawContext& context, const Lanes& result, std::size_t basis, bool of_keys,
                  ImVec2 size) {
  const widgets::Palette& p = context.palette;
  const LaneReport& r = result->report;
  const auto& losses = result->losses[basis];
  const std::vector<Line>& lines = of_keys ? losses.of_keys : losses.of_queries;
  const TickRoom room;
  if (!ImPlot::BeginPlot("##loss", size, ImPlotFlags_CanvasOnly)) return;
  setup_loss_axes(result, of_keys, size.y);
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  draw->AddLine(ImPlot::PlotToPixels(r.kept_lanes, limits.Y.Max),
                ImPlot::PlotToPixels(r.kept_lanes, 0), p.faint, std::max(1.0F, widgets::em(0.08F)));
  for (const analysis::LossCurve& curve : r.bases[basis].curves)
    if (curve.q_head >= 0 && curve.of_keys == of_keys)
      line_ui(draw, r.kept, curve.loss, widgets::with_alpha(loss_color(p, curve.choice), 0.35F),
              std::max(1.0F, widgets::em(0.06F)));
  for (const Line& line : lines) {
    line_ui(draw, r.kept, line.loss, loss_color(p, line.choice), widgets::em(0.17F));
    draw->AddCircleFilled(ImPlot::PlotToPixels(r.kept_lanes, line.loss[r.kept_index()]),
                          widgets::em(0.25F), loss_color(p, line.choice));
  }
  if (!result->losses_beside.empty()) {
    const auto& other = result->losses_beside[basis];
    for (const Line& line : of_keys ? other.of_keys : other.of_queries)
      dashed_line_ui(draw, r.kept, line.loss,
                     widgets::mix(loss_color(p, line.choice), p.text, 0.45), widgets::em(0.14F));
  }
  values_at_k_ui(context, draw, r, lines);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) loss_tooltip(context, r, lines);
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
