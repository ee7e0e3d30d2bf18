// latency: the parts of a method against dense attention, measured live on this machine for the
// current cell.
#include "app/panels/view_parts.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using measure::LatencyReport;
using measure::LatencyStats;

// Whether the method measured last, which may no longer be the one shown, has a basis of this text.
bool uses_own_text(state::Workspace& workspace, const std::string& method) {
  for (const auto slot : state::kSlots)
    if (const auto facts = workspace.facts(slot); facts && facts->choice.spec == method)
      return facts->leakage;
  const auto basis = selection::MethodSpec::parse(method).traits().basis;
  return basis && basis->is_self();
}

// What stands between selection and attention.
const char* gather_name(const LatencyReport& report) {
  return report.paged ? "block tables" : "gather";
}

class LatencyPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto slot = workspace.selection().shown;
    widgets::figure_head_ui(context.palette, context.figure, "Latency",
                            method_caption(workspace, slot), place_caption(workspace),
                            method_chips(context, slot));
    const state::LatencyState state = workspace.latency();
    if (!context.figure) controls_ui(context, state);
    if (!state.error.empty()) {
      widgets::error_ui(context.palette, state.error);
    } else if (state.report) {
      report_ui(context, *state.report, state.running);
    } else if (state.running) {
      widgets::loading_ui(context.palette, "Warming up");
    } else {
      widgets::empty_ui(context.palette,
                        "Press Run: the method and dense attention are timed in turns on this "
                        "cell. Any input pauses it.");
    }
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"part", "median_ms", "q25_ms", "q75_ms", "samples", "device", "dtype", "past",
                 "queries", "method", "leakage"},
                {}};
    const auto state = workspace.latency();
    if (!state.report) return table;
    const LatencyReport& r = *state.report;
    const bool leakage = uses_own_text(workspace, r.method);
    const auto add = [&](const std::string& part, const LatencyStats& s) {
      table.rows.push_back({part, cell(s.median_ms), cell(s.q25_ms), cell(s.q75_ms),
                            cell(std::int64_t{s.samples}), r.device, r.dtype, cell(r.past_len),
                            cell(r.chunk_len), r.method, leakage ? "1" : "0"});
    };
    add("select", r.select);
    add(gather_name(r), r.gather);
    add("attend", r.attend);
    add("total", r.total);
    add("dense (" + r.dense_variant + ")", r.dense);
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    const auto state = workspace.latency();
    if (!state.error.empty()) return state.error;
    if (state.report && !state.running) return {};
    if (!state.running) workspace.start_latency();
    return "the measurement has not finished";
  }

 private:
  static void controls_ui(DrawContext& context, const state::LatencyState& state) {
    if (state.running) {
      if (ImGui::Button("Stop##latency")) context.workspace.stop_latency();
      ImGui::SameLine();
      widgets::text_colored(context.palette.muted, "measuring; other computations wait");
    } else if (ImGui::Button("Run##latency")) {
      context.workspace.start_latency();
    }
  }

  static void report_ui(DrawContext& context, const LatencyReport& r, bool running) {
    const auto& p = context.palette;
    const ImU32 select = p.hit, gather = p.waste, attend = p.recent, dense = p.current;
    widgets::legend_ui(
        p, {{"select", select}, {gather_name(r), gather}, {"attend", attend}, {"dense", dense}});
    {
      const widgets::FontScope strong(widgets::fonts().strong, 1.25F);
      if (r.total.median_ms > 0)
        widgets::text_colored(
            p.text, fmt::format("{:.2f} x {} than dense attention",
                                r.total.median_ms <= r.dense.median_ms
                                    ? r.dense.median_ms / r.total.median_ms
                                    : r.total.median_ms / r.dense.median_ms,
                                r.total.median_ms <= r.dense.median_ms ? "faster" : "slower"));
    }
    widgets::text_colored(
        p.muted,
        fmt::format(
            "{}, {}  \u00B7  layer {}, chunk {}: {} queries after {} keys  \u00B7  median of {} "
            "samples, bars to the quartiles{}{}",
            r.device, r.dtype, r.layer, r.chunk, format_count(r.chunk_len),
            format_count(r.past_len), r.total.samples,
            r.discarded > 0 ? fmt::format(", {} discarded (busy machine)", r.discarded) : "",
            running ? ", measuring" : ""));
    widgets::text_colored(p.muted,
                          fmt::format("dense: the fastest of three, here {}", r.dense_variant));
    constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs;
    const float height = std::min(ImGui::GetContentRegionAvail().y, widgets::em(24));
    if (!ImPlot::BeginPlot("##latency", {-1, height}, kFlags)) return;
    const double right = 1.15 * std::max({r.dense.q75_ms, r.total.q75_ms, r.dense.median_ms, 1e-6});
    ImPlot::SetupAxes("milliseconds", nullptr, 0,
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Invert);
    ImPlot::SetupAxesLimits(0, right, -0.6, 1.6, ImPlotCond_Always);
    static const double kRows[] = {0, 1};
    static const char* const kNames[] = {"dense", "method"};
    ImPlot::SetupAxisTicks(ImAxis_Y1, kRows, 2, kNames);
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const auto bar = [&](double row, double from, double to, ImU32 color) {
      draw->AddRectFilled(ImPlot::PlotToPixels(from, row - 0.28),
                          ImPlot::PlotToPixels(to, row + 0.28), color);
      const std::string text = fmt::format("{:.3g}", to - from);
      const ImVec2 a = ImPlot::PlotToPixels(from, row), b = ImPlot::PlotToPixels(to, row);
      const ImVec2 size = ImGui::CalcTextSize(text.c_str());
      if (size.x + widgets::em(0.5F) < b.x - a.x)
        draw->AddText({(a.x + b.x - size.x) / 2, a.y - size.y / 2}, widgets::ink_on(color),
                      text.c_str());
    };
    const auto spread = [&](double row, const LatencyStats& s) {
      const ImVec2 low = ImPlot::PlotToPixels(s.q25_ms, row),
                   high = ImPlot::PlotToPixels(s.q75_ms, row);
      const float cap = widgets::em(0.5F);
      draw->AddLine(low, high, p.text, widgets::em(0.13F));
      for (const ImVec2 end : {low, high})
        draw->AddLine({end.x, end.y - cap}, {end.x, end.y + cap}, p.text, widgets::em(0.13F));
      const std::string text = fmt::format("{:.3g} ms", s.median_ms);
      draw->AddText({high.x + widgets::em(0.5F), high.y - ImGui::GetTextLineHeight() / 2}, p.text,
                    text.c_str());
    };
    bar(0, 0, r.dense.median_ms, dense);
    double at = 0;
    for (const auto& [stats, color] : {std::pair{&r.select, select}, std::pair{&r.gather, gather},
                                       std::pair{&r.attend, attend}}) {
      bar(1, at, at + stats->median_ms, color);
      at += stats->median_ms;
    }
    spread(0, r.dense);
    spread(1, r.total);
    ImPlot::EndPlot();
  }
};

}  // namespace

std::unique_ptr<Panel> make_latency_panel() { return std::make_unique<LatencyPanel>(); }

}  // namespace kvloupe::panels
