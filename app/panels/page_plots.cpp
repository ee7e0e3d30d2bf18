// See page_plots.h.
#include "app/panels/page_plots.h"

#include "app/panels/map_plot.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::PageMove;
using analysis::PageReport;
using analysis::PageScore;
using analysis::PageStep;
using analysis::PageVerdict;
using Range = state::QuestPagesQuestion::Answer::Range;

constexpr ImPlotFlags kPlain = ImPlotFlags_CanvasOnly;

double pad_of(const Range& range) { return std::max(0.05 * (range.high - range.low), 1e-3); }

void page_tooltip(DrawContext& context, const Pages& result, std::size_t index) {
  const PageReport& report = result->report;
  const PageScore& page = report.pages[index];
  context.workspace.pointer.at({.place = result.question.place, .keys = {page.begin, page.end}});
  widgets::tooltip(
      "page %zu: tokens %s to %s\nbound %.3f\nbest logit %.3f\nlooseness %.3f\n%s%s%s", index,
      format_count(page.begin).c_str(), format_count(page.end - 1).c_str(),
      static_cast<double>(page.bound), static_cast<double>(page.best),
      static_cast<double>(page.looseness()),
      page.verdict == PageVerdict::Neither ? "not taken" : analysis::name_of(page.verdict),
      page.move == PageMove::Reselected ? ", taken again after it was dropped" : "",
      report.dense_reason ? " (all keys are kept here)" : "");
  if (plot_clicked() && !result.stale) context.workspace.cursor.set_keys(page.begin, page.end);
}

void cut_line(ImDrawList* draw, const DrawContext& context, ImVec2 from, ImVec2 to) {
  draw->AddLine(from, to, widgets::with_alpha(context.palette.text, 0.55F),
                std::max(1.0F, widgets::em(0.07F)));
}

// Legible over dots.
void label_ui(ImDrawList* draw, const DrawContext& context, ImVec2 at, const char* text) {
  const ImVec2 size = ImGui::CalcTextSize(text);
  draw->AddRectFilled({at.x - 2, at.y}, {at.x + size.x + 2, at.y + size.y},
                      widgets::with_alpha(context.palette.panel, 0.85F), 2);
  draw->AddText(at, context.palette.muted, text);
}

// What was taken lies above the one line, what a perfect bound would take right of the other.
void cuts_ui(ImDrawList* draw, const DrawContext& context, const Pages& result) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const widgets::FontScope small(widgets::Type::Caption);
  const std::optional<double> bound = result->bound_cut, best = result->best_cut;
  if (bound) {
    cut_line(draw, context, ImPlot::PlotToPixels(limits.X.Min, *bound),
             ImPlot::PlotToPixels(limits.X.Max, *bound));
    const ImVec2 at = ImPlot::PlotToPixels(limits.X.Min, *bound);
    label_ui(draw, context, {at.x + widgets::em(0.3F), at.y - ImGui::GetTextLineHeight() - 1},
             "taken: bound above");
  }
  if (best) {
    cut_line(draw, context, ImPlot::PlotToPixels(*best, limits.Y.Min),
             ImPlot::PlotToPixels(*best, limits.Y.Max));
    const ImVec2 at = ImPlot::PlotToPixels(*best, limits.Y.Min);
    label_ui(draw, context, {at.x + widgets::em(0.3F), at.y - ImGui::GetTextLineHeight() - 2},
             "truly best");
  }
}

// Dots of the scatter, the watched pages as squares on top; the page under the mouse, if any.
std::optional<std::size_t> dots_ui(DrawContext& context, const Pages& result) {
  const std::vector<PageScore>& pages = result->report.pages;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const float radius = widgets::em(pages.size() > 800 ? 0.17F : 0.26F);
  const ImVec2 mouse = ImGui::GetMousePos();
  float nearest = widgets::em(0.8F);
  std::optional<std::size_t> found;
  const auto span = state::watched_keys(result.question.place);
  std::vector<std::pair<ImVec2, ImU32>> watched;
  for (const std::int32_t index : result->drawing_order) {
    const PageScore& page = pages[static_cast<std::size_t>(index)];
    const ImVec2 at = ImPlot::PlotToPixels(double{page.best}, double{page.bound});
    draw->AddCircleFilled(
        at, radius,
        widgets::with_alpha(color_of(context.palette, page.verdict),
                            page.verdict == PageVerdict::Neither ? 0.55F : 0.95F));
    if (span && span->keys.meets(page.begin, page.end))
      watched.emplace_back(at, color_of(context.palette, page.verdict));
    if (const float d = std::hypot(at.x - mouse.x, at.y - mouse.y); d < nearest)
      nearest = d, found = static_cast<std::size_t>(index);
  }
  for (const auto& [at, color] : watched) {
    const float out = radius + widgets::em(0.12F);
    draw->AddRectFilled({at.x - out, at.y - out}, {at.x + out, at.y + out}, color);
    draw->AddRect({at.x - out, at.y - out}, {at.x + out, at.y + out}, context.palette.text, 0, 0,
                  widgets::em(0.1F));
  }
  return found;
}

void strokes_ui(DrawContext& context, const Pages& result) {
  const PageReport& report = result->report;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const float page_width =
      ImPlot::PlotToPixels(report.page_size, 0).x - ImPlot::PlotToPixels(0, 0).x;
  const float width = std::clamp(page_width * 0.6F, 1.0F, widgets::em(0.5F));
  for (const std::int32_t index : result->drawing_order) {
    const PageScore& page = report.pages[static_cast<std::size_t>(index)];
    const double middle = (page.begin + page.end) / 2.0;
    const ImVec2 top = ImPlot::PlotToPixels(middle, double{page.bound});
    const ImVec2 best = ImPlot::PlotToPixels(middle, double{page.best});
    const ImU32 color = color_of(context.palette, page.verdict);
    draw->AddRectFilled({top.x - width / 2, top.y}, {top.x + width / 2, best.y},
                        widgets::with_alpha(color, 0.38F));
    draw->AddRectFilled({top.x - width / 2, top.y}, {top.x + width / 2, top.y + 2}, color);
    draw->AddCircleFilled(best, std::max(1.2F, std::min(width * 0.6F, widgets::em(0.22F))), color);
  }
}

// Nothing for a page that was not there yet.
std::optional<PageMove> move_at(const PageReport& report, std::int64_t step, std::int64_t page) {
  const std::vector<PageMove>& moves = report.steps[static_cast<std::size_t>(step)].moves;
  if (page >= static_cast<std::int64_t>(moves.size())) return std::nullopt;
  return moves[static_cast<std::size_t>(page)];
}

// The most telling page of a pixel: moves are in that order but for two.
std::optional<PageMove> pixel_move(const PageReport& report,
                                   std::pair<std::int64_t, std::int64_t> rows,
                                   std::pair<std::int64_t, std::int64_t> cols) {
  const auto weight = [](PageMove move) {
    return move == PageMove::New ? 3 : move == PageMove::Kept ? 2 : static_cast<int>(move);
  };
  std::optional<PageMove> shown;
  for (std::int64_t row = rows.first; row < rows.second; ++row)
    for (std::int64_t col = cols.first; col < cols.second; ++col)
      if (const auto move = move_at(report, row, col);
          move && (!shown || weight(*move) > weight(*shown)))
        shown = move;
  return shown;
}

void fill_steps(const widgets::Palette& palette, const PageReport& report,
                const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const auto num_steps = static_cast<std::int64_t>(report.steps.size());
  const auto num_pages = static_cast<std::int64_t>(report.steps.back().moves.size());
  widgets::fill_pixels(window, num_steps, num_pages, pixels, [&](auto rows, auto cols) {
    const auto move = pixel_move(report, rows, cols);
    return move ? color_of(palette, *move) : palette.future;
  });
}

void point_at_step(DrawContext& context, const Pages& result, const MapPlotHit& hit) {
  const PageReport& report = result->report;
  const auto row = static_cast<std::int64_t>(hit.row), page = static_cast<std::int64_t>(hit.col);
  const PageStep& step = report.steps[static_cast<std::size_t>(row)];
  const auto move = move_at(report, row, page);
  widgets::tooltip("%s %d, page %d\n%s", step_word(report.span.phase), step.chunk,
                   static_cast<int>(page), move ? analysis::name_of(*move) : "not there yet");
  if (hit.clicked && !result.stale) context.workspace.cursor.set_chunk(step.chunk);
}

void setup_churn_axes(const Pages& result, float height) {
  const PageReport& report = result->report;
  const double first = report.steps.front().chunk;
  ImPlot::SetupAxes(step_word(report.span.phase),
                    fitting("Jaccard with the step before", "Jaccard", height),
                    ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock, ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, first - 0.5, report.steps.back().chunk + 0.5,
                          ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, 1.05, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, "%.1f");
  ImPlot::SetupFinish();
}

void churn_ui(DrawContext& context, const PageReport& report) {
  const auto& p = context.palette;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  std::vector<ImVec2> line;
  for (const PageStep& step : report.steps) {
    const double x = step.chunk;
    if (step.jaccard) line.push_back(ImPlot::PlotToPixels(x, *step.jaccard));
  }
  draw->AddPolyline(line.data(), static_cast<int>(line.size()), p.text, 0,
                    std::max(1.0F, widgets::em(0.13F)));
  for (const ImVec2& at : line) draw->AddCircleFilled(at, widgets::em(0.2F), p.text);
}

void point_at_churn(DrawContext& context, const Pages& result) {
  const PageReport& report = result->report;
  const auto chunk = static_cast<int>(std::lround(ImPlot::GetPlotMousePos().x));
  const auto step =
      std::lower_bound(report.steps.begin(), report.steps.end(), chunk,
                       [](const PageStep& s, int wanted) { return s.chunk < wanted; });
  if (step == report.steps.end() || step->chunk != chunk) return;
  widgets::tooltip("%s %d\nJaccard with the step before: %s\n%d new, %d taken again",
                   step_word(report.span.phase), step->chunk,
                   step->jaccard ? fmt::format("{:.2f}", *step->jaccard).c_str() : "\u2013",
                   step->fresh, step->reselected);
  if (plot_clicked() && !result.stale) context.workspace.cursor.set_chunk(step->chunk);
}

}  // namespace

ImU32 color_of(const widgets::Palette& p, PageVerdict verdict) {
  switch (verdict) {
    case PageVerdict::Hit: return p.hit;
    case PageVerdict::Miss: return p.miss;
    case PageVerdict::Waste: return p.waste;
    case PageVerdict::Forced: return p.by_rule;
    case PageVerdict::Neither: return p.faint;
  }
  return p.faint;
}

ImU32 color_of(const widgets::Palette& p, PageMove move) {
  switch (move) {
    case PageMove::Out: return p.dropped;
    case PageMove::Dropped: return widgets::mix(p.dropped, p.current, 0.2);
    case PageMove::New: return p.hit;
    case PageMove::Kept: return widgets::mix(p.hit, p.panel, 0.45);
    case PageMove::Reselected: return p.series[3];
  }
  return p.dropped;
}

bool shows_equal_bounds(const Pages& result) {
  const Range &x = result->best, &y = result->bounds;
  // No stub in a corner.
  return x.high + pad_of(x) > y.low + 0.2 * (y.high - y.low);
}

void bound_scatter_ui(DrawContext& context, const Pages& result, ImVec2 size) {
  if (!ImPlot::BeginPlot("##bounds", size, kPlain)) return;
  const Range &x = result->best, &y = result->bounds;
  ImPlot::SetupAxes(fitting("best logit of a key of the page", "best logit", size.x), "bound",
                    ImPlotAxisFlags_Lock, ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, x.low - pad_of(x), x.high + pad_of(x), ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, y.low - pad_of(y), y.high + pad_of(y), ImPlotCond_Always);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  if (shows_equal_bounds(result))
    draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, limits.X.Min),
                  ImPlot::PlotToPixels(limits.X.Max, limits.X.Max), context.palette.faint,
                  std::max(1.0F, widgets::em(0.08F)));
  const auto pointed = dots_ui(context, result);
  cuts_ui(draw, context, result);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure && pointed)
    page_tooltip(context, result, *pointed);
  ImPlot::EndPlot();
}

void bound_strip_ui(DrawContext& context, const Pages& result, ImVec2 size) {
  const PageReport& report = result->report;
  const TickRoom room;
  if (!ImPlot::BeginPlot("##strip", size, kPlain)) return;
  const Range y{std::min(result->best.low, result->bounds.low),
                std::max(result->best.high, result->bounds.high)};
  ImPlot::SetupAxes("token", "logit", ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, std::max(1, report.pages.back().end), ImPlotCond_Always);
  // Room for the dots at the foot and the rings at the top.
  const double pad = 2 * pad_of(y);
  ImPlot::SetupAxisLimits(ImAxis_Y1, y.low - pad, y.high + pad, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupFinish();
  ImPlot::PushPlotClipRect();
  strokes_ui(context, result);
  ImPlot::PopPlotClipRect();
  span_marks_ui(context, result.question.place, true);
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const auto index = static_cast<std::int64_t>(ImPlot::GetPlotMousePos().x / report.page_size);
    if (index >= 0 && index < static_cast<std::int64_t>(report.pages.size()))
      page_tooltip(context, result, static_cast<std::size_t>(index));
  }
  ImPlot::EndPlot();
}

void page_steps_ui(DrawContext& context, const Pages& result, widgets::MapTexture& texture,
                   ImVec2 size) {
  const PageReport& report = result->report;
  MapPlotSpec spec;
  spec.id = "##page steps";
  spec.x_label =
      fmt::format("page of {} token{}", report.page_size, report.page_size == 1 ? "" : "s");
  spec.y_label = step_word(report.span.phase);
  spec.rows = static_cast<double>(report.steps.size());
  spec.cols = static_cast<double>(report.steps.back().moves.size());
  spec.size = size;
  spec.row_ticks = true;
  spec.first_row = report.steps.front().chunk;
  spec.content_key = result.key;
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_steps(context.palette, report, window, pixels);
  };
  const auto hit = map_plot_ui(context, spec, texture, [&] {
    span_marks_ui(context, result.question.place, true, report.page_size);
    if (!result->here) return;
    const auto row = static_cast<double>(*result->here);
    ImPlot::PushPlotClipRect();
    ImPlot::GetPlotDrawList()->AddRect(
        ImPlot::PlotToPixels(0, row), ImPlot::PlotToPixels(spec.cols, row + 1),
        context.palette.text, 0, 0, std::max(1.0F, widgets::em(0.1F)));
    ImPlot::PopPlotClipRect();
  });
  if (hit) point_at_step(context, result, *hit);
}

void page_churn_ui(DrawContext& context, const Pages& result, ImVec2 size) {
  const PageReport& report = result->report;
  if (!ImPlot::BeginPlot("##churn", size, kPlain)) return;
  setup_churn_axes(result, size.y);
  ImPlot::PushPlotClipRect();
  if (const PageStep* here = result->step_here())
    ImPlot::GetPlotDrawList()->AddRectFilled(ImPlot::PlotToPixels(here->chunk - 0.5, 1.05),
                                             ImPlot::PlotToPixels(here->chunk + 0.5, 0.0),
                                             widgets::with_alpha(context.palette.accent, 0.12F));
  churn_ui(context, report);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) point_at_churn(context, result);
  ImPlot::EndPlot();
}

}  // namespace kvloupe::panels
