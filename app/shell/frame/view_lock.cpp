#include "app/shell/frame/view_lock.h"

#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

namespace kvloupe::shell {
namespace {

std::string file_name(const std::string& path) {
  return state::readable_name(std::filesystem::path(path).filename().string());
}

// A trace that was still recorded has its own name by now.
const state::TraceTab* tab_of(const std::string& path, const state::Traces& traces) {
  const state::TraceTab* tab = traces.find(path);
  constexpr std::string_view kPart = ".part";
  if (tab != nullptr || !path.ends_with(kPart)) return tab;
  return traces.find(path.substr(0, path.size() - kPart.size()));
}

}  // namespace

ViewLock::ViewLock(std::string id, const state::ViewInfo* view) : view_(view) {
  sight_.id = std::move(id);
}

void ViewLock::set(std::optional<state::ViewState> words) {
  words_ = std::move(words);
  sight_.lock.reset();
  on_.reset();
  problem_.clear();
  state_ = State::Shown;
}

void ViewLock::let_go() {
  sight_.lock.reset();
  on_.reset();
}

state::Sight* ViewLock::look_up(const state::Traces& traces) {
  const bool is_copy = view_ != nullptr && sight_.id != view_->id;
  if (!words_) return is_copy ? &sight_ : nullptr;
  const state::TraceTab* tab = tab_of(words_->trace, traces);
  if (tab == nullptr || tab->state != state::ResultState::Ready) {
    state_ = tab == nullptr ? State::Closed : State::Loading;
    let_go();
    return nullptr;
  }
  if (on_ != tab->selection.place.trace) {
    on_ = tab->selection.place.trace;
    try {
      sight_.lock = state::lock_on(*tab, *words_);
      state_ = State::Shown;
    } catch (const Error& error) {
      sight_.lock.reset();
      state_ = State::Unknown;
      problem_ = error.what();
    }
  }
  return state_ == State::Shown ? &sight_ : nullptr;
}

bool ViewLock::line_ui(const state::Workspace& workspace, const widgets::Palette& palette) const {
  if (!words_ || !sight_.lock) return false;
  const state::TraceTab* active = workspace.traces.active();
  std::string words = state::words_of(*sight_.lock, *view_);
  if (active == nullptr || active->id != sight_.lock->tab)
    words = file_name(words_->trace) + (words.empty() ? "" : ", ") + words;
  const std::string text = "locked: " + words;
  const ImVec2 pad{widgets::em(0.45F), widgets::em(0.12F)};
  const float line = ImGui::GetTextLineHeight(), box = line + 2 * pad.y;
  const float room = ImGui::GetContentRegionAvail().x - box - 2 * pad.x;
  const std::string shown = widgets::elided(text, std::max(room, widgets::em(4)));
  const float width = ImGui::CalcTextSize(shown.c_str()).x + 2 * pad.x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(at, {at.x + width + box, at.y + box},
                      widgets::with_alpha(palette.warning, 0.16F), widgets::em(0.3F));
  ImGui::Dummy({width, box});
  draw->AddText({at.x + pad.x, at.y + pad.y}, palette.warning, shown.c_str());
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s\nA: %s\nB: %s\nThe rest follows the selection; the x unlocks.",
                     text.c_str(), state::readable_name(sight_.lock->method[0].text).c_str(),
                     state::readable_name(sight_.lock->method[1].text).c_str());
  ImGui::SameLine(0, 0);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::InvisibleButton("##unlock", {box, box});
  const ImU32 ink = ImGui::IsItemHovered() ? palette.text : palette.warning;
  if (ImGui::IsItemHovered()) widgets::tooltip("Unlock: it follows the selection again");
  const ImVec2 c{corner.x + box / 2 - pad.x / 4, corner.y + box / 2};
  const float r = line * 0.22F;
  draw->AddLine({c.x - r, c.y - r}, {c.x + r, c.y + r}, ink, widgets::em(0.1F));
  draw->AddLine({c.x - r, c.y + r}, {c.x + r, c.y - r}, ink, widgets::em(0.1F));
  return pressed;
}

ViewLock::Wish ViewLock::obstacle_ui(const widgets::Palette& palette) const {
  const std::string file = file_name(words_->trace);
  if (state_ == State::Loading) {
    widgets::loading_ui(palette, "Opening " + file);
    return Wish::Nothing;
  }
  widgets::text_wrapped(
      palette.warning,
      state_ == State::Closed
          ? fmt::format("This view is locked to a place in {}, which is not open.", file)
          : fmt::format("This view is locked to what {} does not have: {}.", file, problem_));
  Wish wish = Wish::Nothing;
  if (state_ == State::Closed) {
    if (ImGui::Button("Open it")) wish = Wish::OpenTrace;
    ImGui::SameLine();
  }
  if (ImGui::Button("Unlock")) wish = Wish::Unlock;
  return wish;
}

bool ViewLock::was_changed() const {
  return words_ && sight_.lock && sight_.lock->shown != words_->shown;
}

state::ViewState ViewLock::changed() const {
  state::ViewState words = *words_;
  words.shown = sight_.lock->shown;
  return words;
}

}  // namespace kvloupe::shell
