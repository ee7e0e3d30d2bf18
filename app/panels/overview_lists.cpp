#include "app/panels/overview_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvloupe::panels {
namespace {

void extreme_ui(DrawContext& context, const Overview& result, const Coloring& coloring,
                std::int32_t index) {
  const analysis::Matrix& values = result->overview.values;
  const double value = values.values[static_cast<std::size_t>(index)];
  const int layer = result->overview.layers[static_cast<std::size_t>(index / values.cols)];
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float box = widgets::em(0.9F);
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + 2}, {at.x + box, at.y + 2 + box},
                                            coloring.at(context.palette, value), 3);
  ImGui::SetCursorScreenPos({at.x + box + widgets::em(0.5F), at.y});
  widgets::text_colored(context.palette.text, fmt::format("layer {}, {} {}", layer,
                                                          head_word(*result), index % values.cols));
  ImGui::SameLine(widgets::em(13));
  const widgets::FontScope mono(widgets::Type::Number);
  std::string text = fmt::format("{:.3f}", value);
  if (!result->gap.values.empty())
    text += fmt::format("  gap {:.3f}", result->gap.values[static_cast<std::size_t>(index)]);
  widgets::text_colored(context.palette.muted, text);
}

// Of few cells none is in both lists.
std::size_t count_of_list(const OverviewHeadings& headings, bool best, float lines,
                          std::size_t cells) {
  return std::min({static_cast<std::size_t>(lines), cells > 1 ? cells / 2 : cells,
                   best ? headings.most_best : headings.most_worst});
}

}  // namespace

void remark_ui(DrawContext& context, ImU32 color, const std::string& text) {
  const widgets::FontScope small(widgets::Type::Caption);
  if (context.figure) ImGui::SameLine(0, widgets::em(1));
  widgets::text_wrapped(color, text);
}

void overview_lists_ui(DrawContext& context, const Overview& result, const Coloring& coloring,
                       const OverviewHeadings& headings) {
  const std::vector<std::int32_t>& cells = result->by_worth;
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float room = ImGui::GetContentRegionAvail().y - line;
  // Below each other on paper, where half the width has no room for a line's numbers.
  const bool on_paper = context.least_plot > 0;
  constexpr float kLinesOnPaper = 4;
  const float lines = on_paper ? kLinesOnPaper : std::max(1.0F, room / line);
  const float width = std::min(ImGui::GetContentRegionAvail().x / 2, widgets::em(26));
  bool beside = false;
  for (const bool best : {false, true}) {
    const std::size_t count = count_of_list(headings, best, lines, cells.size());
    if (count == 0) continue;
    const ImVec2 size =
        on_paper ? ImVec2(0, line * (static_cast<float>(count) + 1)) : ImVec2(width, 0);
    if (beside) ImGui::SameLine();
    beside = !on_paper;
    ImGui::BeginChild(best ? "best" : "worst", size, ImGuiChildFlags_None,
                      ImGuiWindowFlags_NoScrollbar);
    heading_ui(context, best ? headings.best : headings.worst, headings.order);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t index = cells[best ? cells.size() - 1 - i : i];
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const int cols = result->overview.values.cols;
      if (ImGui::Selectable(fmt::format("##cell {}", index).c_str()) && !result.stale)
        go_to_cell(context.workspace, *result,
                   result->overview.layers[static_cast<std::size_t>(index / cols)], index % cols);
      ImGui::SetCursorScreenPos(at);
      extreme_ui(context, result, coloring, index);
    }
    ImGui::EndChild();
  }
}

void overview_extremes_ui(DrawContext& context, const Overview& result,
                          const replay::NumberInfo& info, const Coloring& coloring,
                          const OverviewHeadings& headings) {
  const std::vector<std::int32_t>& cells = result->by_worth;
  // As many as the height has room for, beside two headings and the meaning.
  const float room = ImGui::GetContentRegionAvail().y - widgets::em(7.5F);
  const float lines = std::clamp(room / 2 / ImGui::GetTextLineHeightWithSpacing(), 1.0F, 9.0F);
  for (const bool best : {false, true}) {
    const std::size_t count = count_of_list(headings, best, lines, cells.size());
    if (count == 0) continue;
    {
      const widgets::FontScope strong(widgets::Type::Strong);
      widgets::text_colored(context.palette.text, best ? headings.best : headings.worst);
    }
    if (!best && !result->gap.values.empty())
      remark_ui(context, context.palette.muted, "by the gap to the oracle");
    for (std::size_t i = 0; i < count; ++i)
      extreme_ui(context, result, coloring, cells[best ? cells.size() - 1 - i : i]);
    ImGui::Dummy({0, widgets::grid(1)});
  }
  widgets::text_wrapped(context.palette.muted, info.sentence);
}

}  // namespace kvloupe::panels
