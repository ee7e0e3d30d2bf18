#include "app/widgets/ink.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::widgets {
namespace {

double relative_luminance(ImU32 color) {
  const auto channel = [color](int shift) {
    const double value = ((color >> shift) & 255U) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(IM_COL32_R_SHIFT) + 0.7152 * channel(IM_COL32_G_SHIFT) +
         0.0722 * channel(IM_COL32_B_SHIFT);
}

}  // namespace

double contrast(ImU32 a, ImU32 b) {
  const auto [dark, light] = std::minmax({relative_luminance(a), relative_luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

ImU32 ink_of(const Palette& palette, ImU32 color) {
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    const ImU32 ink = mix(color, palette.text, static_cast<double>(step) / kSteps);
    if (contrast(ink, palette.panel) >= kLegible) return ink;
  }
  return palette.text;
}

}  // namespace kvloupe::widgets
