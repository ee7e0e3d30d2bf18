// latency: the parts of a method against dense attention, measured live on this machine for the
// current cell.
#include "app/state/questions/how_much/latency.h"

#include "app/panels/view_frame.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <array>

namespace kvloupe::panels {
namespace {

using measure::LatencyReport;
using measure::LatencyStats;
using state::LatencyPart;
using state::LatencyQuestion;
// Of the current cell alone: a time measured in another cell is never shown here.
using Latency = state::Result<LatencyQuestion>;

class LatencyPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    const LatencyQuestion question{workspace.place(), workspace.method()};
    const Latency result = workspace.ask(question);
    method_head_ui(context, "Latency", question.place,
                   *state::known_facts(workspace, question.place, question.method),
                   workspace.selection().shown);
    if (!context.figure && result.note.empty()) controls_ui(context, result);
    if (result) {
      report_ui(context, result);
      return;
    }
    switch (result.state) {
      case state::ResultState::Error: failure_ui(context, result.error); break;
      case state::ResultState::Loading: widgets::loading_ui(context.palette, "Warming up"); break;
      default:
        widgets::empty_ui(context.palette,
                          !result.note.empty()
                              ? result.note
                              : "Press Run: the method and dense attention are timed in turns on "
                                "this cell. Any input pauses it.");
    }
  }

 private:
  static void controls_ui(DrawContext& context, const Latency& result) {
    state::Answers& answers = context.workspace.answers;
    const bool here = result.state == state::ResultState::Loading;
    if (!here && !answers.measuring()) {
      if (ImGui::Button("Run##latency")) answers.start(result.question);
      return;
    }
    if (ImGui::Button("Stop##latency")) answers.stop_measuring();
    ImGui::SameLine();
    const std::string text = here ? "measuring; other computations wait"
                                  : "measuring another cell; other computations wait";
    widgets::text_colored(context.palette.muted,
                          widgets::elided(text, ImGui::GetContentRegionAvail().x));
  }

  static void report_ui(DrawContext& context, const Latency& result) {
    const LatencyReport& r = *result;
    verdict_ui(context, r);
    std::string text = fmt::format(
        "{}, {}  \u00B7  layer {}, {}: {} {} after {} {}  \u00B7  {} {}, median and quartiles",
        r.device, r.dtype, r.layer, chunk_name(result.question.place.info(), r.chunk),
        format_count(r.chunk_len), r.chunk_len == 1 ? "query" : "queries", format_count(r.past_len),
        r.past_len == 1 ? "key" : "keys", r.total.samples,
        r.total.samples == 1 ? "sample" : "samples");
    if (const int busy = r.discarded - (r.gpu ? r.gpu->throttled : 0); busy > 0)
      text += fmt::format(", {} discarded (busy machine)", busy);
    if (const std::string gpu = r.gpu_words(); !gpu.empty()) text += "  \u00B7  " + gpu;
    if (result.state == state::ResultState::Loading)
      text += ", measuring";
    else if (!r.finished)
      text += ", stopped early";
    widgets::text_wrapped(context.palette.muted, text);
    widgets::text_wrapped(context.palette.muted,
                          fmt::format("dense: the fastest form, here {}. Attention over what was "
                                      "kept takes this machine {:.3g} ms at least.",
                                      r.dense_variant, r.floor_ms));
    bars_ui(context, r);
  }

  static void verdict_ui(DrawContext& context, const LatencyReport& r) {
    if (r.total.samples == 0) return;
    const widgets::FontScope strong(widgets::Type::Title);
    widgets::text_wrapped(context.palette.text, state::verdict_of(r));
  }

  // One bar a series: its length, its number and the middle of its whisker are the median.
  static void bars_ui(DrawContext& context, const LatencyReport& r) {
    const auto& p = context.palette;
    std::vector<LatencyPart> parts = state::parts_of(r);
    parts.back().name = "dense";
    const std::array colors{p.series[0], p.series[2], p.series[1],
                            widgets::mix(p.panel, p.text, 0.7), p.current};
    double longest = 1e-6;
    for (const LatencyPart& part : parts)
      longest = std::max({longest, part.stats.q75_ms, part.stats.median_ms});
    const float height =
        std::max(widgets::em(9.5F), std::min(ImGui::GetContentRegionAvail().y, widgets::em(24)));
    if (!ImPlot::BeginPlot("##latency", {-1, height},
                           ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs))
      return;
    const auto last = static_cast<double>(parts.size()) - 1;
    ImPlot::SetupAxes("milliseconds", nullptr, 0,
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Invert);
    // Room for the number right of the longest bar.
    const float width = std::max(ImGui::GetContentRegionAvail().x, widgets::em(20));
    const double room = widgets::em(7) / (width - widgets::em(13));
    ImPlot::SetupAxesLimits(0, longest * (1 + std::clamp(room, 0.15, 1.0)), -0.6, last + 0.6,
                            ImPlotCond_Always);
    std::vector<double> rows;
    std::vector<const char*> names;
    for (const LatencyPart& part : parts) {
      rows.push_back(static_cast<double>(rows.size()));
      names.push_back(part.name.c_str());
    }
    ImPlot::SetupAxisTicks(ImAxis_Y1, rows.data(), static_cast<int>(rows.size()), names.data());
    ImPlot::SetupFinish();
    for (std::size_t i = 0; i < parts.size(); ++i)
      bar_ui(context, rows[i], parts[i].stats, colors[i]);
    ImPlot::EndPlot();
  }

  static void bar_ui(DrawContext& context, double row, const LatencyStats& s, ImU32 color) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    draw->AddRectFilled(ImPlot::PlotToPixels(0, row - 0.3),
                        ImPlot::PlotToPixels(s.median_ms, row + 0.3), color);
    const ImVec2 low = ImPlot::PlotToPixels(s.q25_ms, row);
    const ImVec2 high = ImPlot::PlotToPixels(s.q75_ms, row);
    const float cap = widgets::em(0.35F), line = widgets::em(0.11F);
    draw->AddLine(low, high, context.palette.text, line);
    for (const ImVec2 end : {low, high})
      draw->AddLine({end.x, end.y - cap}, {end.x, end.y + cap}, context.palette.text, line);
    const std::string text = fmt::format("{:.3g} ms", s.median_ms);
    draw->AddText({std::max(high.x, ImPlot::PlotToPixels(s.median_ms, row).x) + widgets::em(0.5F),
                   high.y - ImGui::GetTextLineHeight() / 2},
                  context.palette.text, text.c_str());
    ImPlot::PopPlotClipRect();
  }
};

}  // namespace

std::unique_ptr<Panel> make_latency_panel() { return std::make_unique<LatencyPanel>(); }

}  // namespace kvloupe::panels
