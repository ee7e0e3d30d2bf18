#include "app/shell/frame/frame_guard.h"

#include "core/base/error.h"
#include "core/base/foreign_error.h"

#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>
#include <implot3d/implot3d.h>
#include <implot3d/implot3d_internal.h>

namespace kvloupe::shell {
namespace {

// What the recovery of Dear ImGui leaves alone: clipping and textures of the window's drawing, and
// all of ImPlot and ImPlot3D. A plot left open would take in whatever is drawn next.
class OtherStacks {
 public:
  OtherStacks()
      : clips_(drawing()._ClipRectStack.Size),
        textures_(drawing()._TextureStack.Size),
        colors_(plots().ColorModifiers.Size),
        styles_(plots().StyleModifiers.Size),
        colormaps_(plots().ColormapModifiers.Size) {}

  void leave_plots() const {
    if (plots().CurrentPlot != nullptr) ImPlot::ResetCtxForNextPlot(&plots());
    if (plots().CurrentSubplot != nullptr) ImPlot::ResetCtxForNextSubplot(&plots());
    ImPlot::ResetCtxForNextAlignedPlots(&plots());
    plots().CurrentItems = nullptr;
    ImPlot::PopStyleColor(plots().ColorModifiers.Size - colors_);
    ImPlot::PopStyleVar(plots().StyleModifiers.Size - styles_);
    ImPlot::PopColormap(plots().ColormapModifiers.Size - colormaps_);
    ImPlot3DContext& solid = *ImPlot3D::GetCurrentContext();
    solid.CurrentPlot = nullptr;
    solid.CurrentItems = nullptr;
    solid.CurrentItem = nullptr;
  }
  // In the window in which this was made.
  void leave_drawing() const {
    while (drawing()._ClipRectStack.Size > clips_) ImGui::PopClipRect();
    while (drawing()._TextureStack.Size > textures_) drawing().PopTexture();
    GImGui->NextWindowData.ClearFlags();
    GImGui->NextItemData.ClearFlags();
  }

 private:
  static ImDrawList& drawing() { return *GImGui->CurrentWindow->DrawList; }
  static ImPlotContext& plots() { return *ImPlot::GetCurrentContext(); }

  int clips_, textures_, colors_, styles_, colormaps_;
};

void recover(const ImGuiErrorRecoveryState& state, const OtherStacks& others) {
  others.leave_plots();
  // Its own complaints about what is being ended would only repeat what was thrown.
  ImGuiIO& io = ImGui::GetIO();
  const bool asserts = io.ConfigErrorRecoveryEnableAssert,
             tips = io.ConfigErrorRecoveryEnableTooltip,
             logs = io.ConfigErrorRecoveryEnableDebugLog;
  io.ConfigErrorRecoveryEnableAssert = io.ConfigErrorRecoveryEnableTooltip = false;
  io.ConfigErrorRecoveryEnableDebugLog = true;  // one of the three must be on
  const ImGuiDebugLogFlags log_flags = GImGui->DebugLogFlags;
  GImGui->DebugLogFlags &= ~ImGuiDebugLogFlags_OutputToTTY;
  ImGui::ErrorRecoveryTryToRecoverState(&state);
  io.ConfigErrorRecoveryEnableAssert = asserts;
  io.ConfigErrorRecoveryEnableTooltip = tips;
  io.ConfigErrorRecoveryEnableDebugLog = logs;
  GImGui->DebugLogFlags = log_flags;
  others.leave_drawing();
}

}  // namespace

std::string guarded(const std::function<void()>& draw) {
  constexpr const char* kFailed = "this view failed";
  ImGuiErrorRecoveryState state;
  ImGui::ErrorRecoveryStoreState(&state);
  const OtherStacks others;
  std::string problem;
  try {
    draw();
    return {};
  } catch (const std::exception& thrown) {
    problem = error_from(kFailed, thrown).what();
  } catch (...) {
    problem = Error(ErrorKind::Internal, kFailed, "the cause is unknown",
                    "please report this with what you did")
                  .what();
  }
  recover(state, others);
  return problem;
}

}  // namespace kvloupe::shell
