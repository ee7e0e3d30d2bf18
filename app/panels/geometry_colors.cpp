#include "app/panels/geometry_colors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvloupe::panels {
namespace {

using Color = state::GeometryForm::Color;

double share_of_attention(double p, double most) {
  if (p <= 0 || most <= 0) return 0;
  return std::clamp(1 + std::log10(p / most) / kDecades, 0.0, 1.0);
}

double share_of_position(std::int32_t position, const std::vector<std::int32_t>& shown) {
  const auto span = static_cast<double>(shown.back() - shown.front());
  return span > 0 ? (position - shown.front()) / span : 1;
}

}  // namespace

state::KeyFate fate_of(const Geometry& result, std::int32_t key) {
  return result->fates[static_cast<std::size_t>(key)];
}

ImU32 color_of_query(const widgets::Palette& palette, const Geometry& result, std::size_t query) {
  const analysis::HeadPoints& points = *result->points;
  switch (result.question.form.color) {
    case Color::Relevance: {
      const double low = result->least_relevance, high = result->most_relevance;
      return relevance_color(palette, (points.relevance[query] - low) / (high - low));
    }
    case Color::Position:
      return relevance_color(
          palette, share_of_position(points.query_positions[query], points.query_positions));
    case Color::Attention:
      return relevance_color(palette, share_of_attention(result->given(query), result->most_given));
    case Color::Fate: break;
  }
  return palette.muted;
}

ImU32 color_of_key(const widgets::Palette& palette, const Geometry& result, std::size_t key) {
  const analysis::HeadPoints& points = *result->points;
  switch (result.question.form.color) {
    case Color::Position:
      return relevance_color(palette,
                             share_of_position(points.key_positions[key], points.key_positions));
    case Color::Attention:
      return relevance_color(palette,
                             share_of_attention(result->received(key), result->most_received));
    case Color::Relevance:
    case Color::Fate: break;
  }
  if (!result->fates.empty()) return color_of(palette, fate_of(result, points.key_positions[key]));
  return widgets::with_alpha(palette.muted, 0.6F);
}

}  // namespace kvloupe::panels
