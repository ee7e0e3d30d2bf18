// See mean_queries.h.
#include "app/panels/mean_queries.h"

#include <string>

namespace kvloupe::panels {
namespace {

void mean_ui(ImDrawList* draw, const widgets::Palette& palette, ImVec2 mean) {
  const float r = widgets::em(0.55F);
  const ImVec2 left(mean.x - r, mean.y - r), right(mean.x + r, mean.y - r),
      foot(mean.x, mean.y + r);
  draw->AddTriangleFilled(left, right, foot, palette.series[0]);
  draw->AddTriangle(left, right, foot, palette.panel, widgets::em(0.1F));
}

void number_ui(ImDrawList* draw, const widgets::Palette& palette, ImVec2 at, int number) {
  const std::string text = std::to_string(number);
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  const ImVec2 from(at.x + widgets::em(0.5F), at.y - size.y / 2);
  draw->AddRectFilled({from.x - widgets::em(0.15F), from.y},
                      {from.x + size.x + widgets::em(0.15F), from.y + size.y},
                      widgets::with_alpha(palette.panel, 0.8F), widgets::em(0.2F));
  draw->AddText(from, palette.text, text.c_str());
}

// The mean queries of all chunks in turn, later ones stronger; the first, the last and the place's are
// numbered.
void path_ui(ImDrawList* draw, const widgets::Palette& palette, const Geometry& result,
             const std::vector<ImVec2>& means) {
  const auto last = static_cast<int>(means.size()) - 1;
  draw->AddPolyline(means.data(), last + 1, widgets::with_alpha(palette.panel, 0.8F), 0,
                    widgets::em(0.35F));
  for (int i = 1; i <= last; ++i) {
    const float alpha = 0.35F + 0.65F * static_cast<float>(i) / static_cast<float>(last);
    draw->AddLine(means[static_cast<std::size_t>(i - 1)], means[static_cast<std::size_t>(i)],
                  widgets::with_alpha(palette.series[0], alpha), widgets::em(0.13F));
  }
  for (const ImVec2& mean : means)
    draw->AddCircleFilled(mean, widgets::em(0.2F), palette.series[0]);
  const int here = result.question.place.chunk - result->points->first_chunk;
  if (here >= 0 && here <= last) mean_ui(draw, palette, means[static_cast<std::size_t>(here)]);
  for (const int numbered : {0, here, last})
    if (numbered >= 0 && numbered <= last)
      number_ui(draw, palette, means[static_cast<std::size_t>(numbered)],
                result->points->first_chunk + numbered);
}

}  // namespace

void mean_queries_ui(ImDrawList* draw, const widgets::Palette& palette, const Geometry& result,
                     const std::vector<ImVec2>& means) {
  if (means.size() > 1) path_ui(draw, palette, result, means);
  if (means.size() == 1) mean_ui(draw, palette, means.front());
}

}  // namespace kvloupe::panels
