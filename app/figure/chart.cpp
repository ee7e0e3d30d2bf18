#include "app/figure/chart.h"

#include "app/figure/page.h"
#include "app/figure/pdf.h"
#include "app/figure/svg.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace kvloupe::figure {
namespace {

using widgets::Palette;
using Mark = widgets::LegendItem::Shape;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
};

Range range_of(const std::vector<ChartLine>& lines, bool of_x) {
  Range range;
  for (const ChartLine& line : lines)
    for (const double value : of_x ? line.x : line.y) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  return range;
}

// Colours of curves, that of text among them.
constexpr std::size_t kHues = std::tuple_size_v<decltype(Palette::series)> + 1;

// References step back, and where there are several only the first does, or they would look alike.
ImU32 color_of(const Palette& p, const std::vector<ChartLine>& lines, std::size_t line) {
  const auto is_reference = [](const ChartLine& one) { return one.reference; };
  const auto before = lines.begin() + static_cast<std::ptrdiff_t>(line);
  if (lines[line].reference && std::none_of(lines.begin(), before, is_reference)) return p.muted;
  const std::size_t hue = line % kHues;
  return hue < p.series.size() ? p.series[hue] : p.text;
}

// Shapes go on where the colours begin again.
Mark mark_of(std::size_t line) {
  constexpr std::array kMarks = {Mark::Dot, Mark::Square, Mark::Triangle};
  return kMarks[line / kHues % kMarks.size()];
}

// As the legend has them.
void mark_ui(ImDrawList* draw, ImVec2 at, Mark mark, ImU32 color) {
  const float r = widgets::em(0.24F);
  switch (mark) {
    case Mark::Square:
      draw->AddRectFilled({at.x - r, at.y - r}, {at.x + r, at.y + r}, color);
      break;
    case Mark::Triangle:
      draw->AddTriangleFilled({at.x - r, at.y - r}, {at.x + r, at.y - r}, {at.x, at.y + 1.2F * r},
                              color);
      break;
    default: draw->AddCircleFilled(at, r, color);
  }
}

void line_ui(const ChartLine& line, Mark mark, ImU32 color) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  std::vector<ImVec2> points;
  for (std::size_t i = 0; i < line.x.size(); ++i)
    points.push_back(ImPlot::PlotToPixels(line.x[i], line.y[i]));
  if (!line.reference) {
    draw->AddPolyline(points.data(), static_cast<int>(points.size()), color, 0, widgets::em(0.13F));
    for (const ImVec2& point : points) mark_ui(draw, point, mark, color);
    return;
  }
  // What has one value alone is seen all along.
  if (!points.empty() && points.front().x == points.back().x) {
    const float left = ImPlot::GetPlotPos().x, right = left + ImPlot::GetPlotSize().x;
    const float y = points.back().y;
    points.assign({ImVec2(left, y), ImVec2(right, y)});
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    const ImVec2 from = points[i - 1], to = points[i];
    const int dashes =
        std::max(1, static_cast<int>(std::hypot(to.x - from.x, to.y - from.y) / widgets::em(0.9F)));
    const ImVec2 step((to.x - from.x) / static_cast<float>(dashes),
                      (to.y - from.y) / static_cast<float>(dashes));
    for (int d = 0; d < dashes; ++d) {
      const ImVec2 at(from.x + step.x * static_cast<float>(d),
                      from.y + step.y * static_cast<float>(d));
      draw->AddLine(at, {at.x + 0.55F * step.x, at.y + 0.55F * step.y}, color, widgets::em(0.12F));
    }
  }
}

// Values that were asked for, where they are few: powers of ten tell nothing of 64, 256, 1024.
void ticks_at_values(const std::vector<ChartLine>& lines) {
  std::vector<double> at;
  for (const ChartLine& line : lines) at.insert(at.end(), line.x.begin(), line.x.end());
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  if (at.empty() || at.size() > 12) return;
  std::vector<std::string> texts;
  std::vector<const char*> labels;
  for (const double value : at) texts.push_back(fmt::format("{:.6g}", value));
  for (const std::string& text : texts) labels.push_back(text.c_str());
  ImPlot::SetupAxisTicks(ImAxis_X1, at.data(), static_cast<int>(at.size()), labels.data());
}

void limits_of(ImAxis axis, Range range, bool log) {
  if (log) {
    ImPlot::SetupAxisScale(axis, ImPlotScale_Log10);
    const double room = std::max(1.1, std::pow(range.high / range.low, 0.05));
    ImPlot::SetupAxisLimits(axis, range.low / room, range.high * room, ImPlotCond_Always);
    return;
  }
  const double room = range.high > range.low ? 0.04 * (range.high - range.low) : 1;
  ImPlot::SetupAxisLimits(axis, range.low - room, range.high + room, ImPlotCond_Always);
}

void plot_ui(const Palette& palette, const Chart& chart) {
  if (!ImPlot::BeginPlot("##chart", {-1, -1}, ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs))
    return;
  ImPlot::SetupAxes(chart.x_label.c_str(), chart.y_label.c_str(), ImPlotAxisFlags_NoHighlight,
                    ImPlotAxisFlags_NoHighlight);
  limits_of(ImAxis_X1, range_of(chart.lines, true), chart.log_x);
  Range y = range_of(chart.lines, false);
  if (!chart.log_y) y.low = std::min(0.0, y.low);
  if (chart.share) y = {0, 1};
  limits_of(ImAxis_Y1, y, chart.log_y);
  if (chart.log_x) ticks_at_values(chart.lines);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  for (std::size_t i = 0; i < chart.lines.size(); ++i)
    line_ui(chart.lines[i], mark_of(i), color_of(palette, chart.lines, i));
  ImPlot::PopPlotClipRect();
  ImPlot::EndPlot();
}

void chart_ui(const Palette& palette, const Chart& chart) {
  widgets::figure_head_ui(palette, true, chart.title, "", chart.caption, {});
  std::vector<widgets::LegendItem> legend;
  for (std::size_t i = 0; i < chart.lines.size(); ++i)
    legend.push_back({chart.lines[i].name, color_of(palette, chart.lines, i),
                      chart.lines[i].reference ? Mark::Line : mark_of(i)});
  widgets::legend_ui(palette, legend);
  plot_ui(palette, chart);
}

}  // namespace

bool spans_octaves(const std::vector<ChartLine>& lines, bool of_x) {
  const Range range = range_of(lines, of_x);
  return range.low > 0 && range.high >= 16 * range.low;
}

std::string chart_bytes(const Chart& chart, state::Format format) {
  state::PictureForm form;
  form.width = chart.width;
  form.height = chart.height;
  const bool vectors = format != state::Format::Png;
  PageForm page = page_of(form, vectors);
  page.grows = false;  // the plot takes the room that there is
  const Content draw = [&](const Palette& palette) { chart_ui(palette, chart); };
  if (!vectors) return png_bytes(content_image(page, draw));
  Scene scene = content_scene(page, draw);
  scene.title = chart.title;
  const double width = scene.width * page.points;
  return format == state::Format::Svg ? svg_text(scene, width) : pdf_bytes(scene, width);
}

}  // namespace kvloupe::figure
