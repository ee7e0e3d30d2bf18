#include "app/shell/frame_guard.h"

#include "core/base/error.h"

#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

namespace kvloupe::shell {
namespace {

// A plot left open would take in whatever is drawn next.
void leave_plots() {
  ImPlotContext* plots = ImPlot::GetCurrentContext();
  if (plots == nullptr) return;
  if (plots->CurrentPlot != nullptr) ImPlot::ResetCtxForNextPlot(plots);
  if (plots->CurrentAlignmentH != nullptr || plots->CurrentAlignmentV != nullptr)
    ImPlot::ResetCtxForNextAlignedPlots(plots);
  plots->CurrentPlot = nullptr;
}

}  // namespace

std::string guarded(const std::function<void()>& draw) {
  ImGuiErrorRecoveryState state;
  ImGui::ErrorRecoveryStoreState(&state);
  std::string problem;
  try {
    draw();
    return {};
  } catch (const Error& error) {
    problem = error.what();
  } catch (const std::exception& error) {
    problem = std::string("this view failed; ") + error.what() + "; please report what you did";
  }
  leave_plots();
  // Its own complaints about what is being ended would only repeat the one above.
  ImGuiIO& io = ImGui::GetIO();
  const bool asserts = io.ConfigErrorRecoveryEnableAssert,
             tips = io.ConfigErrorRecoveryEnableTooltip,
             logs = io.ConfigErrorRecoveryEnableDebugLog;
  io.ConfigErrorRecoveryEnableAssert = io.ConfigErrorRecoveryEnableTooltip = false;
  io.ConfigErrorRecoveryEnableDebugLog = true;  // one of the three must be on
  ImGui::ErrorRecoveryTryToRecoverState(&state);
  io.ConfigErrorRecoveryEnableAssert = asserts;
  io.ConfigErrorRecoveryEnableTooltip = tips;
  io.ConfigErrorRecoveryEnableDebugLog = logs;
  return problem;
}

}  // namespace kvloupe::shell
