#include "app/panels/sweep_plots.h"

#include "app/widgets/ink.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace kvloupe::panels {
namespace {

using analysis::SweepPoint;
using replay::Number;
using state::BudgetSweepQuestion;
using state::SweepCurve;

void dashed_line(ImDrawList* draw, ImVec2 from, ImVec2 to, ImU32 color, float width, float& phase) {
  const float dash = widgets::em(0.42F), period = widgets::em(0.78F);
  const float length = std::hypot(to.x - from.x, to.y - from.y);
  if (length <= 0) return;
  const auto at = [&](float s) {
    return ImVec2(from.x + (to.x - from.x) * s / length, from.y + (to.y - from.y) * s / length);
  };
  for (float s = -phase; s < length; s += period)
    if (s + dash > 0)
      draw->AddLine(at(std::max(0.0F, s)), at(std::min(length, s + dash)), color, width);
  phase = std::fmod(phase + length, period);
}

// A method without a budget stands where it ends up.
void single_ui(DrawContext& context, const SweepStroke& line, ImVec2 at) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const float r = widgets::em(0.42F);
  // An error of 0 has no place on a log axis: at its edge.
  at.y = std::min(at.y, ImPlot::GetPlotPos().y + ImPlot::GetPlotSize().y - 2 * r);
  draw->AddQuadFilled({at.x, at.y - r}, {at.x + r, at.y}, {at.x, at.y + r}, {at.x - r, at.y},
                      line.color);
  draw->AddQuad({at.x, at.y - r}, {at.x + r, at.y}, {at.x, at.y + r}, {at.x - r, at.y},
                context.palette.panel, 1.0F);
  const float width = ImGui::CalcTextSize(line.curve->name.c_str()).x + 1.4F * r;
  const bool fits = at.x + width < ImPlot::GetPlotPos().x + ImPlot::GetPlotSize().x;
  draw->AddText({fits ? at.x + 1.4F * r : at.x - width, at.y - ImGui::GetTextLineHeight() / 2},
                widgets::ink_of(context.palette, line.color), line.curve->name.c_str());
}

// Rings around the smallest budgets that are enough.
void marks_ui(DrawContext& context, const SweepStroke& line, Number number) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  for (const auto& enough : line.curve->enough_of(number))
    for (const SweepPoint& point : line.curve->points) {
      if (!enough || point.budget != *enough) continue;
      const double value = point.value(number);
      if (!sweep_has_place(number, value)) continue;
      const ImVec2 at = ImPlot::PlotToPixels(sweep_budget_at(point), value);
      draw->AddCircleFilled(at, widgets::em(0.36F), line.color);
      draw->AddCircleFilled(at, widgets::em(0.2F), context.palette.panel);
    }
}

}  // namespace

std::vector<SweepStroke> sweep_strokes(const widgets::Palette& p,
                                       const BudgetSweepQuestion& question,
                                       const BudgetSweepQuestion::Answer& answer) {
  const std::array hues{p.series[0], p.series[3], p.series[2], p.series[1]};
  std::vector<SweepStroke> lines;
  std::size_t num_others = 0;
  for (state::SweepLine& line : state::sweep_lines(question, answer)) {
    SweepStroke drawn{std::move(line)};
    if (drawn.slot) {
      drawn.color = widgets::color_of_slot(p, *drawn.slot);
    } else if (drawn.bound) {
      drawn.color = *drawn.bound == state::SweepLine::Bound::Best ? p.text : p.faint;
    } else {  // each round of hues is nearer to the text
      const auto round = static_cast<double>(num_others / hues.size());
      drawn.color =
          widgets::mix(hues[num_others % hues.size()], p.text, std::min(0.8, 0.4 * round));
      ++num_others;
    }
    lines.push_back(std::move(drawn));
  }
  return lines;
}

bool sweep_has_place(Number number, double value) {
  return replay::info_of(number).is_share() ? !std::isnan(value) : value > 0;
}

double sweep_budget_at(const SweepPoint& point) {
  return point.budget > 0 ? static_cast<double>(point.budget)
                          : std::max(1.0, point.value(Number::EffectiveBudget));
}

void sweep_targets_ui(DrawContext& context, Number number) {
  const ImPlotRange x = ImPlot::GetPlotLimits().X;
  for (const analysis::SweepTarget& target : analysis::kSweepTargets) {
    const double goal = analysis::goal_of(number, target);
    ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(x.Min, goal),
                                       ImPlot::PlotToPixels(x.Max, goal),
                                       widgets::with_alpha(context.palette.good, 0.5F), 1.0F);
  }
}

void sweep_curve_ui(DrawContext& context, const SweepStroke& line, Number number) {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const SweepCurve& curve = *line.curve;
  std::optional<ImVec2> last;
  float phase = 0;
  for (const SweepPoint& point : curve.points) {
    double value = point.value(number);
    if (!curve.has_budget()) value = std::max(value, ImPlot::GetPlotLimits().Y.Min);
    if (!sweep_has_place(number, value)) {
      last.reset();
      continue;
    }
    const ImVec2 at = ImPlot::PlotToPixels(sweep_budget_at(point), value);
    if (!curve.has_budget()) {
      single_ui(context, line, at);
    } else if (last) {
      if (line.dashed())
        dashed_line(draw, *last, at, line.color, line.width(), phase);
      else
        draw->AddLine(*last, at, line.color, line.width());
    }
    if (curve.has_budget() && !line.dashed())
      draw->AddCircleFilled(at, widgets::em(line.slot ? 0.2F : 0.15F), line.color);
    last = at;
  }
  if (!line.dashed()) marks_ui(context, line, number);
}

void budget_now_ui(DrawContext& context, const BudgetSweepQuestion& question, state::Slot slot) {
  const auto now = state::budget_now(context.workspace, question.place,
                                     question.slots[static_cast<std::size_t>(slot)]);
  if (!now) return;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImU32 color = widgets::color_of_slot(context.palette, slot);
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float x = ImPlot::PlotToPixels(*now, ImPlot::GetPlotLimits().Y.Max).x;
  if (x < origin.x || x > origin.x + size.x) return;
  float phase = 0;
  dashed_line(draw, {x, origin.y}, {x, origin.y + size.y}, widgets::with_alpha(color, 0.8F),
              widgets::em(0.08F), phase);
  const std::string text =
      fmt::format("{} now: {}", state::letter_of(slot), format_count(std::llround(*now)));
  const float width = ImGui::CalcTextSize(text.c_str()).x + widgets::em(0.4F);
  const bool fits = x + width < origin.x + size.x;
  // B above A: they are often the same budget.
  const auto line = static_cast<float>(slot == state::Slot::A ? 1 : 2);
  const ImVec2 at{fits ? x + widgets::em(0.4F) : x - width,
                  origin.y + size.y - line * ImGui::GetTextLineHeight() - widgets::em(0.3F)};
  // A curve may pass there.
  draw->AddRectFilled(at, {at.x + width - widgets::em(0.4F), at.y + ImGui::GetTextLineHeight()},
                      widgets::with_alpha(context.palette.panel, 0.85F));
  draw->AddText(at, widgets::ink_of(context.palette, color), text.c_str());
}

}  // namespace kvloupe::panels
