#include "app/shell/bars/tour_column.h"

#include "app/shell/frame/dock_layout.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cfloat>
#include <optional>
#include <system_error>

namespace kvloupe::shell {

bool TourColumn::read(const std::filesystem::path& file) {
  try {
    tour_ = state::load_tour(file);
  } catch (const Error& error) {
    messages_.say(error.what(), true);
    return false;
  }
  return true;
}

void TourColumn::open(const std::filesystem::path& file) {
  if (!read(file)) return;
  std::error_code gone;
  saved_ = std::filesystem::last_write_time(tour_->file, gone);
  done_.clear();
  go(0);
}

void TourColumn::go(std::size_t page) {
  if (!tour_) return;
  page_ = std::min(page, tour_->pages.size() - 1);
  set_page();
  workspace_.traces.open(tour_->pages[page_].at.trace);
  wanted_ = true;
}

// Once its trace is there.
void TourColumn::show_page() {
  wanted_ = false;
  shown_ = true;
  const state::ViewState& at = tour_->pages[page_].at;
  try {
    state::show(workspace_, at);
  } catch (const Error& error) {
    messages_.say(error.what(), true);
    shown_ = false;  // and so it cannot be done
  }
  if (!at.view.empty()) panels_.show(at.view);
}

void TourColumn::step(int by) {
  if (!tour_) return;
  const int last = static_cast<int>(tour_->pages.size()) - 1;
  go(static_cast<std::size_t>(std::clamp(static_cast<int>(page_) + by, 0, last)));
}

void TourColumn::set_page() {
  const state::TourPage& now = tour_->pages[page_];
  tells_ = false;
  body_ = widgets::parse_markdown(now.body);
  to_try_ = widgets::parse_markdown(now.to_try);
  to_see_ = widgets::parse_markdown(now.to_see);
}

bool TourColumn::on_its_trace() const {
  const state::TraceTab* tab = workspace_.traces.ready();
  return tab != nullptr && tab->path == tour_->pages[page_].at.trace;
}

void TourColumn::tick() {
  if (!tour_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ > std::chrono::seconds(1)) {
    looked_ = now;
    std::error_code gone;
    const auto saved = std::filesystem::last_write_time(tour_->file, gone);
    // A file that is not there, or not understood, leaves the tour as it was.
    if (!gone && saved != saved_) {
      saved_ = saved;
      if (read(tour_->file)) go(page_);
    }
  }
  if (!on_its_trace()) return;
  if (wanted_) return show_page();
  if (!shown_ || is_done(page_)) return;
  const auto& goals = tour_->pages[page_].goals;
  if (std::all_of(goals.begin(), goals.end(), [&](const state::TourGoal& goal) {
        return (goal.view.empty() || panels_.visible(goal.view)) &&
               state::is_reached(goal, workspace_);
      }))
    done_.insert(page_);
}

void TourColumn::head_ui(const widgets::Palette& palette) {
  const std::size_t count = tour_->pages.size();
  {
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_colored(palette.muted, fmt::format("{} of {}  {}", page_ + 1, count,
                                                     state::readable_name(tour_->title)));
  }
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::GetFrameHeight());
  if (ImGui::Button("\u00D7##close tour", {ImGui::GetFrameHeight(), 0})) return close();
  if (ImGui::IsItemHovered()) widgets::tooltip("Ends the tour; the trace stays open.");
  // A stroke a page: done, here, to come.
  const float gap = widgets::grid(0.25F);
  const float width = (ImGui::GetContentRegionAvail().x - gap * static_cast<float>(count - 1)) /
                      static_cast<float>(count);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  ImVec2 at = ImGui::GetCursorScreenPos();
  const float top = at.y;
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    const ImVec2 to(at.x + width, at.y + widgets::grid(0.5F));
    ImGui::SetCursorScreenPos(at);
    if (ImGui::InvisibleButton(fmt::format("##page {}", i + 1).c_str(), {width, widgets::grid(1)}))
      chosen = i;
    if (ImGui::IsItemHovered())
      widgets::tooltip("%zu  %s", i + 1, state::readable_name(tour_->pages[i].title).c_str());
    draw->AddRectFilled(at, to, is_done(i) ? palette.hit : palette.line, gap);
    if (i == page_) draw->AddRect(at, to, palette.text, gap);
    at.x = to.x + gap;
  }
  ImGui::SetCursorScreenPos({ImGui::GetWindowPos().x + ImGui::GetStyle().WindowPadding.x, top});
  ImGui::Dummy({0, widgets::grid(1)});
  if (chosen) go(*chosen);
}

void TourColumn::part_ui(const widgets::Palette& palette, const char* word,
                         const std::vector<widgets::MarkdownBlock>& blocks) {
  if (blocks.empty()) return;
  {
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(palette.accent, word);
  }
  widgets::markdown_ui(palette, blocks);
}

void TourColumn::page_ui(const widgets::Palette& palette) {
  const state::TourPage& now = tour_->pages[page_];
  {
    const widgets::FontScope title(widgets::Type::Title);
    widgets::text_wrapped(palette.text, now.title);
  }
  ImGui::Dummy({0, widgets::grid(0.5F)});
  widgets::markdown_ui(palette, body_);
}

void TourColumn::hand_ui(const widgets::Palette& palette, float most) {
  const state::TourPage& now = tour_->pages[page_];
  if (to_try_.empty() && to_see_.empty() && now.goals.empty() && now.knobs.empty()) return;
  ImGui::Separator();
  ImGui::SetNextWindowSizeConstraints({0, 0}, {FLT_MAX, most});
  if (ImGui::BeginChild(fmt::format("at hand {}", page_).c_str(), {0, 0},
                        ImGuiChildFlags_AutoResizeY))
    try_ui(palette, now);
  ImGui::EndChild();
}

void TourColumn::try_ui(const widgets::Palette& palette, const state::TourPage& now) {
  part_ui(palette, "Try", to_try_);
  const state::MethodChoice& method = workspace_.method(state::Slot::A);
  if (!now.knobs.empty() && on_its_trace() && method.known())
    knobs_.draw(workspace_, palette, state::Slot::A, now.knobs);
  // What is to be seen comes after the try.
  if (now.goals.empty() || is_done(page_) || tells_)
    part_ui(palette, "See", to_see_);
  else if (!to_see_.empty() && ImGui::SmallButton("Tell me what I should see"))
    tells_ = true;
  if (now.goals.empty()) return;
  widgets::text_colored(is_done(page_) ? palette.hit : palette.muted,
                        is_done(page_) ? "\u2713 Done" : "Not done yet");
}

void TourColumn::foot_ui(const widgets::Palette& palette) {
  ImGui::Separator();
  ImGui::BeginDisabled(page_ == 0);
  if (ImGui::Button("Back")) step(-1);
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (ImGui::Button("Show again")) go(page_);
  if (ImGui::IsItemHovered()) widgets::tooltip("The window as this page asks for it.");
  const bool last = page_ + 1 == tour_->pages.size();
  ImGui::SameLine();
  ImGui::BeginDisabled(last);
  if (is_done(page_)) ImGui::PushStyleColor(ImGuiCol_Button, palette.accent);
  const bool colored = is_done(page_);
  if (ImGui::Button("Next", {ImGui::GetContentRegionAvail().x, 0})) step(1);
  if (colored) ImGui::PopStyleColor();
  ImGui::EndDisabled();
}

void TourColumn::draw(const widgets::Palette& palette) {
  if (!tour_) return;
  const float width = widgets::em(window_form().narrow ? 18.0F : 24.0F);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoScrollbar;
  ImGui::PushStyleColor(ImGuiCol_WindowBg, palette.panel);
  if (ImGui::BeginViewportSideBar("###tour", ImGui::GetMainViewport(), ImGuiDir_Left, width,
                                  kFlags)) {
    head_ui(palette);
    if (tour_) {
      // Each page is scrolled by itself, so that the next one begins at its top.
      const float room = ImGui::GetContentRegionAvail().y;
      if (ImGui::BeginChild(fmt::format("page {}", page_).c_str(), {0, -below_})) page_ui(palette);
      ImGui::EndChild();
      const float top = ImGui::GetCursorPosY();
      hand_ui(palette, room * 0.6F);
      foot_ui(palette);
      below_ = ImGui::GetCursorPosY() - top;
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
}

}  // namespace kvloupe::shell
