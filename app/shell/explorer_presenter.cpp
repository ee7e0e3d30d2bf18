// The presenter: one view alone and larger, without bars, for an audience.
#include "app/shell/explorer.h"

#include "app/state/tour_text.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <imgui_internal.h>

namespace kvloupe::shell {

void Explorer::present(bool on) {
  presenting_ = on && workspace_.has_trace();
  presenting_ ? panels_.fill() : panels_.unfill();
  presenting_ ? speaker_.begin() : speaker_.end();
  style_changed_ = true;
}

void Explorer::step_presented(int by) {
  if (tour_.is_open()) return tour_.step(by);
  if (!notes_.step(workspace_, by)) workspace_.cursor.step_chunk(by);
}

Slide Explorer::slide() {
  if (const auto& tour = tour_.tour()) {
    const std::size_t at = tour_.page(), count = tour->pages.size();
    return {tour->pages[at].title, tour->pages[at].to_try,
            at + 1 < count ? tour->pages[at + 1].title : "", at + 1, count};
  }
  if (!workspace_.has_trace()) return {"The trace is being opened.", "", "", 0, 0};
  const std::vector<Note> notes = notes_.notes(workspace_);
  const auto at = static_cast<std::size_t>(notes_.index_here(workspace_) + 1);
  if (!notes.empty())
    return {at > 0 ? "Note" : "Before the first note", at > 0 ? notes[at - 1].text : "",
            at < notes.size() ? notes[at].text : "", at, notes.size()};
  const auto chunk = static_cast<std::size_t>(workspace_.place().chunk);
  const std::size_t count = workspace_.place().info().chunks.size();
  return {fmt::format("Chunk {}", chunk), "",
          chunk + 1 < count ? fmt::format("chunk {}", chunk + 1) : "", chunk + 1, count};
}

void Explorer::save_notes_as_tour() {
  state::Tour tour;
  tour.trace = workspace_.traces.ready()->path;
  tour.title = tour.trace.stem().string();
  for (const Note& note : notes_.notes(workspace_)) {
    state::TourPage page = state::page_of_note(note.text, note.at, tour.pages.size() + 1);
    page.at.trace = tour.trace.string();
    tour.pages.push_back(std::move(page));
  }
  std::filesystem::path file = tour.trace;
  file.replace_extension(".md");
  files_.open(FileDialog::Purpose::SaveFile, "Save the notes as a tour", file,
              [this, tour](const std::string& chosen) mutable {
                std::error_code ignored;
                if (std::filesystem::exists(chosen, ignored))
                  return messages_.say(printable(chosen) + " exists: choose another name.", true);
                tour.file = std::filesystem::absolute(chosen);
                try {
                  write_whole_file(chosen, state::text_of(tour));
                  messages_.say("Written: " + printable(chosen), false);
                } catch (const Error& error) {
                  messages_.say(error.what(), true);
                }
              });
}

// A disc around the mouse, which an audience finds at once.
void Explorer::presenter_ui() {
  if (!panels_.fills() || workspace_.traces.tabs().empty()) return present(false);
  const widgets::Palette& palette = gui_.palette();
  if (const int by = speaker_.is_open() ? speaker_.draw(palette, slide()) : 0; by != 0)
    step_presented(by);
  // The note is the speaker's where the speaker has a window.
  if (const std::string text = notes_.text_here(workspace_);
      !tour_.is_open() && !speaker_.is_open() && !text.empty()) {
    const widgets::FontScope title(widgets::Type::Title);
    const ImGuiViewport* viewport = ImGui::GetMainViewport();
    const float wrap = viewport->Size.x - widgets::em(2);
    const float height = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap).y + widgets::em(1);
    if (ImGui::BeginViewportSideBar("##note", nullptr, ImGuiDir_Down, height,
                                    ImGuiWindowFlags_NoSavedSettings))
      widgets::text_wrapped(palette.text, text);
    ImGui::End();
  }
  if (!ImGui::IsMousePosValid()) return;
  const ImVec2 at = ImGui::GetMousePos();
  ImDrawList* draw = ImGui::GetForegroundDrawList();
  draw->AddCircleFilled(at, widgets::em(0.9F), widgets::with_alpha(palette.accent, 0.25F));
  draw->AddCircle(at, widgets::em(0.9F), widgets::with_alpha(palette.accent, 0.8F), 0,
                  widgets::em(0.1F));
}

}  // namespace kvloupe::shell
