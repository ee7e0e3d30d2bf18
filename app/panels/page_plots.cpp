// See page_plots.h.
#include "app/panels/page_plots.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kvloupe::panels {
namespace {

using analysis::PageMove;
using analysis::PageReport;
using analysis::PageScore;
using analysis::PageStep;
using analysis::PageVerdict;

constexpr ImPlotFlags kPlain = ImPlotFlags_CanvasOnly;

// Drawn last is seen best.
constexpr std::array kDrawingOrder{PageVerdict::Neither, PageVerdict::Hit, PageVerdict::Waste,
                                   PageVerdict::Forced, PageVerdict::Miss};

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(float value) {
    low = std::min(low, static_cast<double>(value));
    high = std::max(high, static_cast<double>(value));
  }
  double pad() const { return std::max(0.05 * (high - low), 1e-3); }
};

struct Cuts {
  std::optional<double> bound;  // lowest bound that was taken; unset where sets were merged
  std::optional<double> best;   // lowest logit that a perfect bound would have taken
};

Cuts cuts_of(const PageReport& report) {
  Extent taken, left, wanted;
  for (const PageScore& page : report.pages) {
    if (page.verdict == PageVerdict::Forced) continue;
    (page.taken() ? taken : left).add(page.bound);
    if (page.verdict == PageVerdict::Hit || page.verdict == PageVerdict::Miss)
      wanted.add(page.best);
  }
  Cuts cuts;
  if (std::isfinite(taken.low) && taken.low >= left.high) cuts.bound = taken.low;
  if (std::isfinite(wanted.low)) cuts.best = wanted.low;
  return cuts;
}

void page_tooltip(DrawContext& context, const PageReport& report, std::size_t index) {
  const PageScore& page = report.pages[index];
  ImGui::SetTooltip(
      "page %zu: tokens %s to %s\nbound %.3f\nbest logit %.3f\nlooseness %.3f\n%s%s%s", index,
      format_count(page.begin).c_str(), format_count(page.end - 1).c_str(),
      static_cast<double>(page.bound), static_cast<double>(page.best),
      static_cast<double>(page.looseness()),
      page.verdict == PageVerdict::Neither ? "not taken" : analysis::name_of(page.verdict),
      page.move == PageMove::Reselected ? ", taken again after it was dropped" : "",
      report.dense_reason ? " (all keys are kept here)" : "");
  if (ImGui::IsMouseReleased(ImGuiMouseButton_Left))
    context.workspace.set_key_span(page.begin, page.end);
}

void reselected_ring(ImDrawList* draw, const DrawContext& context, ImVec2 at) {
  draw->AddCircle(at, widgets::em(0.42F), color_of(context.palette, PageMove::Reselected), 0,
                  std::max(1.0F, widgets::em(0.11F)));
}

void cut_line(ImDrawList* draw, const DrawContext& context, ImVec2 from, ImVec2 to) {
  draw->AddLine(from, to, widgets::with_alpha(context.palette.text, 0.55F),
                std::max(1.0F, widgets::em(0.07F)));
}

void cuts_ui(ImDrawList* draw, const DrawContext& context, const PageReport& report) {
  const Cuts cuts = cuts_of(report);
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const widgets::FontScope small(widgets::fonts().body, 0.85F);
  if (cuts.bound) {
    cut_line(draw, context, ImPlot::PlotToPixels(limits.X.Min, *cuts.bound),
             ImPlot::PlotToPixels(limits.X.Max, *cuts.bound));
    const ImVec2 at = ImPlot::PlotToPixels(limits.X.Min, *cuts.bound);
    draw->AddText({at.x + widgets::em(0.3F), at.y - ImGui::GetTextLineHeight() - 1},
                  context.palette.muted, "taken: bound above");
  }
  if (cuts.best) {
    cut_line(draw, context, ImPlot::PlotToPixels(*cuts.best, limits.Y.Min),
             ImPlot::PlotToPixels(*cuts.best, limits.Y.Max));
    const ImVec2 at = ImPlot::PlotToPixels(*cuts.best, limits.Y.Min);
    draw->AddText({at.x + widgets::em(0.3F), at.y - ImGui::GetTextLineHeight() - 2},
                  context.palette.muted, "truly best");
  }
}

int percent_tick(double value, char* buffer, int size, void*) {
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%g %%", value * 100);
}

std::size_t steps_index_of(const PageReport& report) {
  for (std::size_t i = 0; i < report.steps.size(); ++i)
    if (report.steps[i].chunk == report.chunk) return i;
  return report.steps.size();
}

// The number that a step goes by: chunks of the prompt their own, decode steps from 0.
int number_of_first_step(const PageReport& report) {
  return report.span.phase == trace::Phase::Decode ? 0 : report.steps.front().chunk;
}

const char* step_word(const PageReport& report) {
  return report.span.phase == trace::Phase::Decode ? "decode step" : "chunk";
}

}  // namespace

ImU32 color_of(const widgets::Palette& p, PageVerdict verdict) {
  switch (verdict) {
    case PageVerdict::Hit:
      return p.hit;
    case PageVerdict::Miss:
      return p.miss;
    case PageVerdict::Waste:
      return p.waste;
    case PageVerdict::Forced:
      return p.recent;
    case PageVerdict::Neither:
      return p.faint;
  }
  return p.faint;
}

ImU32 color_of(const widgets::Palette& p, PageMove move) {
  switch (move) {
    case PageMove::Out:
      return p.dropped;
    case PageMove::Dropped:
      return widgets::mix(p.dropped, p.current, 0.4);
    case PageMove::New:
      return p.hit;
    case PageMove::Kept:
      return widgets::mix(p.hit, p.panel, 0.45);
    case PageMove::Reselected:
      return p.sink;
  }
  return p.dropped;
}

void bound_scatter_ui(DrawContext& context, const PageReport& report, ImVec2 size) {
  if (!ImPlot::BeginPlot("##bounds", size, kPlain)) return;
  Extent x, y;
  for (const PageScore& page : report.pages) {
    x.add(page.best);
    y.add(page.bound);
  }
  ImPlot::SetupAxes("best logit of a key of the page", "bound", ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, x.low - x.pad(), x.high + x.pad(), ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, std::min(y.low, x.low) - y.pad(), y.high + y.pad(),
                          ImPlotCond_Always);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, limits.X.Min),
                ImPlot::PlotToPixels(limits.X.Max, limits.X.Max), context.palette.faint,
                std::max(1.0F, widgets::em(0.08F)));
  cuts_ui(draw, context, report);
  const float radius = widgets::em(report.pages.size() > 800 ? 0.17F : 0.26F);
  const ImVec2 mouse = ImGui::GetMousePos();
  float nearest = widgets::em(0.8F);
  std::size_t found = report.pages.size();
  for (const PageVerdict verdict : kDrawingOrder)
    for (std::size_t i = 0; i < report.pages.size(); ++i) {
      const PageScore& page = report.pages[i];
      if (page.verdict != verdict) continue;
      const ImVec2 at = ImPlot::PlotToPixels(double{page.best}, double{page.bound});
      draw->AddCircleFilled(at, radius,
                            widgets::with_alpha(color_of(context.palette, verdict),
                                                verdict == PageVerdict::Neither ? 0.55F : 0.95F));
      if (page.move == PageMove::Reselected) reselected_ring(draw, context, at);
      if (const float d = std::hypot(at.x - mouse.x, at.y - mouse.y); d < nearest)
        nearest = d, found = i;
    }
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure && found < report.pages.size())
    page_tooltip(context, report, found);
  ImPlot::EndPlot();
}

void bound_strip_ui(DrawContext& context, const PageReport& report, ImVec2 size) {
  const TickRoom room;
  if (!ImPlot::BeginPlot("##strip", size, kPlain)) return;
  Extent y;
  for (const PageScore& page : report.pages) {
    y.add(page.best);
    y.add(page.bound);
  }
  ImPlot::SetupAxes("token", "logit", ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock,
                    ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, std::max(1, report.pages.back().end), ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, y.low - y.pad(), y.high + 2 * y.pad(), ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const float page_width =
      ImPlot::PlotToPixels(report.page_size, 0).x - ImPlot::PlotToPixels(0, 0).x;
  const float width = std::clamp(page_width * 0.6F, 1.0F, widgets::em(0.5F));
  for (const PageVerdict verdict : kDrawingOrder)
    for (const PageScore& page : report.pages) {
      if (page.verdict != verdict) continue;
      const double middle = (page.begin + page.end) / 2.0;
      const ImVec2 top = ImPlot::PlotToPixels(middle, double{page.bound});
      const ImVec2 best = ImPlot::PlotToPixels(middle, double{page.best});
      const ImU32 color = color_of(context.palette, verdict);
      draw->AddRectFilled({top.x - width / 2, top.y}, {top.x + width / 2, best.y},
                          widgets::with_alpha(color, 0.38F));
      draw->AddRectFilled({top.x - width / 2, top.y}, {top.x + width / 2, top.y + 2}, color);
      draw->AddCircleFilled(best, std::max(1.2F, std::min(width * 0.6F, widgets::em(0.22F))),
                            color);
      if (page.move == PageMove::Reselected && page_width > widgets::em(0.4F))
        reselected_ring(draw, context, top);
    }
  ImPlot::PopPlotClipRect();
  span_marks_ui(context, true);
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const auto index = static_cast<std::int64_t>(ImPlot::GetPlotMousePos().x / report.page_size);
    if (index >= 0 && index < static_cast<std::int64_t>(report.pages.size()))
      page_tooltip(context, report, static_cast<std::size_t>(index));
  }
  ImPlot::EndPlot();
}

void page_steps_ui(DrawContext& context, const PageReport& report, widgets::MapTexture& texture,
                   ImVec2 size) {
  const std::size_t num_pages = report.steps.back().moves.size();
  const auto move_at = [&](std::int64_t step, std::int64_t page) -> std::optional<PageMove> {
    const std::vector<PageMove>& moves = report.steps[static_cast<std::size_t>(step)].moves;
    if (page >= static_cast<std::int64_t>(moves.size())) return std::nullopt;
    return moves[static_cast<std::size_t>(page)];
  };
  const auto fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    const auto num_steps = static_cast<std::int64_t>(report.steps.size());
    for (int y = 0; y < window.height; ++y)
      for (int x = 0; x < window.width; ++x) {
        const auto rows = widgets::MapTexture::cells_of_pixel(window.row_begin, window.row_end,
                                                              window.height, y, num_steps);
        const auto cols =
            widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end, window.width, x,
                                                static_cast<std::int64_t>(num_pages));
        // The most telling page of the pixel: moves are in that order but for the last two.
        std::optional<PageMove> shown;
        const auto weight = [](PageMove move) {
          return move == PageMove::New ? 3 : move == PageMove::Kept ? 2 : static_cast<int>(move);
        };
        for (std::int64_t row = rows.first; row < rows.second; ++row)
          for (std::int64_t col = cols.first; col < cols.second; ++col)
            if (const auto move = move_at(row, col);
                move && (!shown || weight(*move) > weight(*shown)))
              shown = move;
        pixels[static_cast<std::size_t>(y) * window.width + x] =
            shown ? color_of(context.palette, *shown) : context.palette.future;
      }
  };
  MapPlotSpec spec;
  spec.id = "##page steps";
  spec.x_label = fmt::format("page of {} tokens", report.page_size);
  spec.y_label = step_word(report);
  spec.rows = static_cast<double>(report.steps.size());
  spec.cols = static_cast<double>(num_pages);
  spec.size = size;
  spec.row_ticks = true;
  spec.first_row = number_of_first_step(report);
  spec.content_key = fmt::format("{}|L{}|h{}|{}|{}|{}", report.method, report.layer, report.q_head,
                                 static_cast<int>(report.span.phase), report.steps.size(),
                                 static_cast<int>(context.palette.kind));
  spec.fill = fill;
  const std::size_t here = steps_index_of(report);
  const auto hit = map_plot_ui(context, spec, texture, [&] {
    if (here == report.steps.size()) return;
    const auto row = static_cast<double>(here);
    ImPlot::PushPlotClipRect();
    ImPlot::GetPlotDrawList()->AddRect(
        ImPlot::PlotToPixels(0, row), ImPlot::PlotToPixels(static_cast<double>(num_pages), row + 1),
        context.palette.text, 0, 0, std::max(1.0F, widgets::em(0.1F)));
    ImPlot::PopPlotClipRect();
  });
  if (!hit) return;
  const auto step = static_cast<std::int64_t>(hit->row), page = static_cast<std::int64_t>(hit->col);
  const auto move = move_at(step, page);
  const int chunk = report.steps[static_cast<std::size_t>(step)].chunk;
  ImGui::SetTooltip("%s %d (chunk %d), page %d\n%s", step_word(report),
                    number_of_first_step(report) + static_cast<int>(step), chunk,
                    static_cast<int>(page), move ? analysis::name_of(*move) : "not there yet");
  if (hit->clicked) context.workspace.set_chunk(chunk);
}

void page_churn_ui(DrawContext& context, const PageReport& report, ImVec2 size) {
  const auto& p = context.palette;
  if (!ImPlot::BeginPlot("##churn", size, kPlain)) return;
  const auto num_steps = static_cast<double>(report.steps.size());
  const double first = number_of_first_step(report);
  int most = 1;
  for (const PageStep& step : report.steps) most = std::max({most, step.reselected, step.fresh});
  ImPlot::SetupAxes(step_word(report), "pages that stay",
                    ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Lock, ImPlotAxisFlags_Lock);
  ImPlot::SetupAxis(ImAxis_Y2, "pages new, taken again",
                    ImPlotAxisFlags_AuxDefault | ImPlotAxisFlags_Lock);
  ImPlot::SetupAxisLimits(ImAxis_X1, first - 0.5, first + num_steps - 0.5, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, 1.05, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y2, 0, 2.0 * most, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, percent_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y2, format_token_tick);
  ImPlot::SetupFinish();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const std::size_t here = steps_index_of(report);
  if (here < report.steps.size())
    draw->AddRectFilled(ImPlot::PlotToPixels(first + static_cast<double>(here) - 0.5, 1.05),
                        ImPlot::PlotToPixels(first + static_cast<double>(here) + 0.5, 0.0),
                        widgets::with_alpha(p.accent, 0.12F));
  const auto bar = [&](double from, double to, int count, ImU32 color) {
    if (count == 0) return;
    draw->AddRectFilled(ImPlot::PlotToPixels(from, double(count), ImAxis_X1, ImAxis_Y2),
                        ImPlot::PlotToPixels(to, 0.0, ImAxis_X1, ImAxis_Y2), color);
  };
  std::vector<ImVec2> line;
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const PageStep& step = report.steps[i];
    const double x = first + static_cast<double>(i);
    bar(x - 0.34, x, step.fresh, color_of(p, PageMove::New));
    bar(x, x + 0.34, step.reselected, color_of(p, PageMove::Reselected));
    if (step.jaccard) line.push_back(ImPlot::PlotToPixels(x, *step.jaccard));
  }
  draw->AddPolyline(line.data(), static_cast<int>(line.size()), p.text, 0,
                    std::max(1.0F, widgets::em(0.13F)));
  for (const ImVec2& at : line) draw->AddCircleFilled(at, widgets::em(0.2F), p.text);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const auto i = static_cast<std::size_t>(
        std::clamp(ImPlot::GetPlotMousePos().x - first + 0.5, 0.0, num_steps - 1));
    const PageStep& step = report.steps[i];
    ImGui::SetTooltip("%s %d (chunk %d)\nstay from the step before: %s\n%d new, %d taken again",
                      step_word(report), static_cast<int>(first) + static_cast<int>(i), step.chunk,
                      step.jaccard ? percent(*step.jaccard).c_str() : "\u2013", step.fresh,
                      step.reselected);
    if (plot_clicked()) context.workspace.set_chunk(step.chunk);
  }
  ImPlot::EndPlot();
}

Table page_table(const PageReport* report) {
  Table table{{"kind", "chunk", "page", "begin", "end", "bound", "best_logit", "looseness",
               "verdict", "move", "taken", "new", "reselected", "jaccard"},
              {}};
  if (report == nullptr) return table;
  const auto whole = [](auto value) { return cell(static_cast<std::int64_t>(value)); };
  for (std::size_t i = 0; i < report->pages.size(); ++i) {
    const PageScore& page = report->pages[i];
    table.rows.push_back({"page", whole(report->chunk), whole(i), whole(page.begin),
                          whole(page.end), cell(double{page.bound}), cell(double{page.best}),
                          cell(double{page.looseness()}),
                          report->dense_reason ? "" : analysis::name_of(page.verdict),
                          report->dense_reason ? "" : analysis::name_of(page.move),
                          report->dense_reason ? "" : whole(page.taken()), "", "", ""});
  }
  for (const PageStep& step : report->steps)
    table.rows.push_back({"step", whole(step.chunk), "", whole(step.span.begin),
                          whole(step.span.end()), "", "", "", "", "", whole(step.taken),
                          whole(step.fresh), whole(step.reselected),
                          step.jaccard ? cell(*step.jaccard) : ""});
  return table;
}

}  // namespace kvloupe::panels
