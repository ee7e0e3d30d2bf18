// The curves of budget_sweep: their colours, strokes and marks inside a plot of the caller's.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/how_much/budget_sweep.h"

#include <vector>

namespace kvloupe::panels {

// A curve as it is drawn.
struct SweepStroke : state::SweepLine {
  ImU32 color = 0;

  bool dashed() const { return bound.has_value(); }
  float width() const { return widgets::em(slot ? 0.17F : 0.11F); }
};
// In the order of state::sweep_lines.
std::vector<SweepStroke> sweep_strokes(const widgets::Palette& palette,
                                       const state::BudgetSweepQuestion& question,
                                       const state::BudgetSweepQuestion::Answer& answer);

// Not for what is unknown, nor for an error of 0 on a log axis.
bool sweep_has_place(replay::Number number, double value);
// Where a point stands on the budget axis: a method without one, where it ends up.
double sweep_budget_at(const analysis::SweepPoint& point);

// Between BeginPlot and EndPlot, axes set up.
void sweep_targets_ui(DrawContext& context, replay::Number number);
void sweep_curve_ui(DrawContext& context, const SweepStroke& line, replay::Number number);
// The budget that A or B has now.
void budget_now_ui(DrawContext& context, const state::BudgetSweepQuestion& question,
                   state::Slot slot);

}  // namespace kvloupe::panels
