#include "app/shell/windows/messages.h"

#include "app/widgets/figure.h"
#include "core/base/log.h"
#include "core/base/printable.h"

#include <fmt/format.h>

namespace kvloupe::shell {
namespace {

constexpr double kSecondsOnScreen = 6.0, kSecondsOfError = 15.0;
constexpr std::size_t kMostRemembered = 200;

}  // namespace

void Messages::say(const std::string& raw, bool is_error) {
  const std::string text = printable(raw);
  toasts_.push_back({text, is_error, 0});
  history_.push_back(text);
  if (history_.size() > kMostRemembered) history_.erase(history_.begin());
  if (is_error) log::warning("{}", text);
}

void Messages::say_once(const std::string& text, bool is_error) {
  if (history_.empty() || history_.back() != printable(text)) say(text, is_error);
}

void Messages::draw(const widgets::Palette& palette) {
  const double now = ImGui::GetTime();
  std::erase_if(toasts_, [&](const Toast& toast) { return toast.until != 0 && toast.until < now; });
  const ImVec2 size = ImGui::GetMainViewport()->Size;
  float bottom = size.y - widgets::em(3);
  int index = 0;
  for (Toast& toast : toasts_) {
    if (toast.until == 0) toast.until = now + (toast.is_error ? kSecondsOfError : kSecondsOnScreen);
    ImGui::SetNextWindowPos({size.x - widgets::em(1.2F), bottom}, ImGuiCond_Always, {1, 1});
    ImGui::SetNextWindowSizeConstraints({widgets::em(16), 0}, {widgets::em(34), size.y});
    constexpr ImGuiWindowFlags kFlags =
        ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_AlwaysAutoResize |
        ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav |
        ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
    if (ImGui::Begin(fmt::format("##toast{}", index++).c_str(), nullptr, kFlags)) {
      ImGui::PushTextWrapPos(widgets::em(32));
      widgets::text_colored(toast.is_error ? palette.error : palette.text, toast.text);
      ImGui::PopTextWrapPos();
      if (ImGui::IsWindowHovered()) {
        toast.until = now + 1;
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left))
          ImGui::SetClipboardText(toast.text.c_str());
      }
      const ImVec2 from = ImGui::GetWindowPos(), size_here = ImGui::GetWindowSize();
      widgets::keep_clear(from, {from.x + size_here.x, from.y + size_here.y});
      bottom -= ImGui::GetWindowHeight() + widgets::em(0.5F);
    }
    ImGui::End();
  }
}

}  // namespace kvloupe::shell
