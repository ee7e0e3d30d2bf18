#include "app/shell/windows/speaker_window.h"

#include "app/widgets/figure.h"
#include "app/widgets/fonts.h"

#include <fmt/chrono.h>
#include <imgui.h>

#include <ctime>

namespace kvloupe::shell {
namespace {

constexpr const char* kTitle = "KVLoupe: the speaker's window###speaker";

// A screen that the audience does not see; null: there is one screen alone.
const ImGuiPlatformMonitor* other_screen() {
  const ImVec2 shown = ImGui::GetMainViewport()->GetCenter();
  for (const ImGuiPlatformMonitor& screen : ImGui::GetPlatformIO().Monitors) {
    const ImVec2 begin = screen.MainPos, size = screen.MainSize;
    const bool has_it = shown.x >= begin.x && shown.x < begin.x + size.x && shown.y >= begin.y &&
                        shown.y < begin.y + size.y;
    if (!has_it) return &screen;
  }
  return nullptr;
}

// Over the whole of the other screen, or over the middle of the only one.
void place_window() {
  if (const ImGuiPlatformMonitor* screen = other_screen()) {
    ImGui::SetNextWindowPos(screen->WorkPos, ImGuiCond_Appearing);
    ImGui::SetNextWindowSize(screen->WorkSize, ImGuiCond_Appearing);
  } else {
    ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Appearing,
                            {0.5F, 0.5F});
    ImGui::SetNextWindowSize({widgets::em(36), widgets::em(22)}, ImGuiCond_Appearing);
  }
  // Never a part of the window that the audience sees; the keyboard stays there.
  ImGuiWindowClass own;
  own.ViewportFlagsOverrideSet = ImGuiViewportFlags_NoAutoMerge |
                                 ImGuiViewportFlags_NoFocusOnAppearing | ImGuiViewportFlags_TopMost;
  ImGui::SetNextWindowClass(&own);
}

}  // namespace

bool SpeakerWindow::can_open() {
  constexpr ImGuiBackendFlags kNeeded =
      ImGuiBackendFlags_PlatformHasViewports | ImGuiBackendFlags_RendererHasViewports;
  return (ImGui::GetIO().BackendFlags & kNeeded) == kNeeded;
}

void SpeakerWindow::begin() {
  began_ = std::chrono::steady_clock::now();
  open_ = can_open() && other_screen() != nullptr;
}

void SpeakerWindow::before_frame() const {
  ImGuiIO& io = ImGui::GetIO();
  if (open_)
    io.ConfigFlags |= ImGuiConfigFlags_ViewportsEnable;
  else
    io.ConfigFlags &= ~ImGuiConfigFlags_ViewportsEnable;
}

int SpeakerWindow::draw(const widgets::Palette& palette, const Slide& slide) {
  // It was opened in this frame: ImGui makes it in the next one.
  if ((ImGui::GetIO().ConfigFlags & ImGuiConfigFlags_ViewportsEnable) == 0) return 0;
  place_window();
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoCollapse |
                                      ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_NoFocusOnAppearing;
  int step = 0;
  if (ImGui::Begin(kTitle, &open_, kFlags)) {
    clock_ui(palette);
    if (slide.count > 0)
      widgets::text_colored(palette.muted, fmt::format("{} of {}", slide.number, slide.count));
    {
      const widgets::FontScope title(widgets::Type::Title);
      widgets::text_wrapped(palette.text, slide.title);
      if (!slide.text.empty()) widgets::text_wrapped(palette.text, slide.text);
    }
    ImGui::Spacing();
    if (slide.count > 0)
      widgets::text_wrapped(palette.muted,
                            slide.next.empty() ? "This is the last one." : "Next: " + slide.next);
    ImGui::Spacing();
    ImGui::BeginDisabled(slide.number <= 1);
    if (ImGui::Button("Back")) step = -1;
    ImGui::EndDisabled();
    ImGui::SameLine();
    ImGui::BeginDisabled(slide.next.empty());
    if (ImGui::Button("Next")) step = 1;
    ImGui::EndDisabled();
  }
  ImGui::End();
  return step;
}

// Minutes and seconds since it began, and the time of day.
void SpeakerWindow::clock_ui(const widgets::Palette& palette) {
  const auto now = std::chrono::steady_clock::now();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - began_).count();
  {
    const widgets::FontScope title(widgets::Type::Title);
    widgets::text_colored(palette.text, fmt::format("{}:{:02}", seconds / 60, seconds % 60));
  }
  ImGui::SameLine(0, widgets::em(1));
  widgets::text_colored(palette.muted,
                        fmt::format("it is {:%H:%M}", fmt::localtime(std::time(nullptr))));
  ImGui::SameLine(0, widgets::em(1));
  if (ImGui::SmallButton("Start the clock again")) began_ = now;
}

}  // namespace kvloupe::shell
