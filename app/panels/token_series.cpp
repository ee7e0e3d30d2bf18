#include "app/panels/token_series.h"

#include "app/widgets/figure.h"
#include "app/widgets/palette.h"

#include <implot/implot.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

void dot_ui(double token, double value, double highest, ImU32 color) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImVec2 at = ImPlot::PlotToPixels(token, std::min(value, highest));
  const float size = widgets::em(0.14F);
  if (value <= highest) return draw->AddCircleFilled(at, size, color);
  draw->AddTriangleFilled(at, {at.x + 2 * size, at.y + 3 * size},
                          {at.x - 2 * size, at.y + 3 * size}, color);
}

}  // namespace

void token_series_ui(const std::vector<float>& values, const std::vector<double>& means,
                     ImU32 color, bool logarithmic, bool dots) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(limits.X.Min)));
  const auto last =
      std::min(values.size(), static_cast<std::size_t>(std::max(0.0, std::ceil(limits.X.Max))));
  if (first >= last) return;
  const auto is_drawn = [&](double value) {
    return std::isfinite(value) && (!logarithmic || value > 0);
  };
  if (dots && last - first <= kMostDots)
    for (std::size_t t = first; t < last; ++t)
      if (is_drawn(values[t]))
        dot_ui(static_cast<double>(t), values[t], limits.Y.Max, widgets::with_alpha(color, 0.35F));
  const double pixels = std::max(1.0F, ImPlot::GetPlotSize().x);
  const auto step = std::max<std::size_t>(
      1, static_cast<std::size_t>(static_cast<double>(last - first) / pixels));
  std::vector<ImVec2> line;
  for (std::size_t t = first; t < last; t += step)
    if (is_drawn(means[t])) line.push_back(ImPlot::PlotToPixels(static_cast<double>(t), means[t]));
  ImPlot::GetPlotDrawList()->AddPolyline(line.data(), static_cast<int>(line.size()), color, 0,
                                         widgets::em(0.14F));
}

}  // namespace kvloupe::panels
