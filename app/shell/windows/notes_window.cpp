#include "app/shell/windows/notes_window.h"

#include "app/state/run_names.h"
#include "app/state/selection.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <utility>

namespace kvloupe::shell {
namespace {

std::string place_text(const state::ViewState& at) {
  std::vector<std::string> parts;
  if (at.place.chunk) parts.push_back(fmt::format("chunk {}", *at.place.chunk));
  if (at.place.layer) parts.push_back(fmt::format("layer {}", *at.place.layer));
  if (at.place.q_head) parts.push_back(fmt::format("query head {}", *at.place.q_head));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// One a line, of the trace shown. A note keeps texts, and "run:1" says nothing to a reader.
std::string methods_text(const state::Workspace& workspace, const state::OpenTrace& trace,
                         const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    std::string name = state::readable_name(text);
    try {
      const state::MethodChoice method = state::choice_of_text(text, trace);
      name = state::own_name(workspace, method).empty() ? state::readable_name(method.text)
                                                        : state::label_of(workspace, method);
    } catch (const Error&) {
      // The run is gone: its text is all that is left of it.
    }
    lines += (lines.empty() ? "" : "\n") + name;
  }
  return lines;
}

}  // namespace

NotesWindow::Notes& NotesWindow::notes_of(const std::string& trace) {
  const auto [found, is_new] = by_trace_.try_emplace(trace);
  if (is_new) {
    try {
      found->second.notes = load_notes(trace);
    } catch (const Error& error) {
      found->second.problem = error.what();
    }
  }
  return found->second;
}

void NotesWindow::add(state::Workspace& workspace) {
  state::TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return;
  Notes& notes = notes_of(tab->path);
  if (!notes.problem.empty()) return messages_.say(notes.problem, true);
  Note note{new_note_id(), "", state::state_of(*tab)};
  focus_ = note.id;
  save(tab->path, {note.id, note});
  notes.notes.push_back(std::move(note));
}

void NotesWindow::bring_back(const std::string& trace, Notes& notes) {
  Note note = std::move(notes.removed.back());
  notes.removed.pop_back();
  save(trace, {note.id, note});
  notes.notes.push_back(std::move(note));
}

void NotesWindow::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  for (const std::string& failure : writer_.failures()) messages_.say(failure, true);
  state::TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return;
  Notes& notes = notes_of(tab->path);
  if (!notes.problem.empty()) return widgets::error_ui(palette, notes.problem);
  if (ImGui::Button("Note this place")) add(workspace);
  if (ImGui::IsItemHovered())
    widgets::tooltip("Remembers the place, the methods and the options shown now.");
  if (!notes.removed.empty()) {
    ImGui::SameLine();
    if (ImGui::Button("Bring back")) bring_back(tab->path, notes);
  }
  if (!notes.notes.empty()) {
    ImGui::SameLine();
    if (ImGui::Button("Save as a tour\u2026")) workspace.wanted_command = "notes.tour";
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "A Markdown file with a page for each note, which leads through the window.");
  }
  if (notes.notes.empty())
    widgets::text_wrapped(palette.muted,
                          "Nothing is noted yet. Notes lie beside the trace, so they go with it.");
  for (std::size_t i = notes.notes.size(); i-- > 0;) note_ui(workspace, palette, notes, i);
}

void NotesWindow::go(state::Workspace& workspace, Notes& notes, const Note& note) {
  notes.at = note.id;
  try {
    state::show(workspace, note.at);
  } catch (const Error& error) {
    messages_.say(error.what(), true);
  }
}

std::vector<Note> NotesWindow::notes(state::Workspace& workspace) {
  const state::TraceTab* tab = workspace.traces.ready();
  return tab != nullptr ? notes_of(tab->path).notes : std::vector<Note>();
}

bool NotesWindow::step(state::Workspace& workspace, int by) {
  const state::TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return false;
  Notes& notes = notes_of(tab->path);
  const auto count = std::ssize(notes.notes);
  if (count == 0) return false;
  const std::ptrdiff_t at = index_here(workspace);
  const std::ptrdiff_t next = at < 0 ? 0 : at + by;
  go(workspace, notes,
     notes.notes[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(next, 0, count - 1))]);
  return true;
}

std::ptrdiff_t NotesWindow::index_here(state::Workspace& workspace) {
  const state::TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return -1;
  const Notes& notes = notes_of(tab->path);
  for (std::size_t i = 0; i < notes.notes.size(); ++i)
    if (notes.notes[i].id == notes.at) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

std::string NotesWindow::text_here(state::Workspace& workspace) {
  const std::ptrdiff_t at = index_here(workspace);
  return at < 0 ? ""
                : notes_of(workspace.traces.ready()->path).notes[static_cast<std::size_t>(at)].text;
}

void NotesWindow::note_ui(state::Workspace& workspace, const widgets::Palette& palette,
                          Notes& notes, std::size_t index) {
  Note& note = notes.notes[index];
  const std::string trace = note.at.trace;
  ImGui::PushID(note.id.c_str());
  if (ImGui::SmallButton("Go")) go(workspace, notes, note);
  ImGui::SameLine();
  const float button = ImGui::CalcTextSize("Remove").x + 2 * ImGui::GetStyle().FramePadding.x;
  const float room = std::max(
      widgets::em(3), ImGui::GetContentRegionAvail().x - button - ImGui::GetStyle().ItemSpacing.x);
  widgets::text_colored(palette.text, widgets::elided(place_text(note.at), room));
  if (ImGui::IsItemHovered() && !note.at.methods.empty())
    widgets::tooltip("%s", methods_text(workspace, *workspace.traces.ready()->selection.place.trace,
                                        note.at.methods)
                               .c_str());
  ImGui::SameLine(ImGui::GetContentRegionMax().x - button);
  const bool removed = ImGui::SmallButton("Remove");
  if (focus_ == note.id) {
    focus_.clear();
    ImGui::SetKeyboardFocusHere();
  }
  const float lines = static_cast<float>(
      std::clamp<std::ptrdiff_t>(std::count(note.text.begin(), note.text.end(), '\n') + 1, 1, 8));
  const std::string typed = note.text;
  ImGui::InputTextMultiline(
      "##text", &note.text,
      {-1, lines * ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().FramePadding.y});
  if (ImGui::IsItemEdited() && typed_ != note.id) {
    save_typed();  // its field may have gone amid the typing, which then never ended
    typed_ = note.id;
  }
  const bool ends = ImGui::IsItemDeactivated();
  // Escape ends the typing; Dear ImGui would also put back what stood there before.
  if (ends && ImGui::IsKeyPressed(ImGuiKey_Escape, false)) note.text = typed;
  if (ends && typed_ == note.id) save_typed();
  ImGui::PopID();
  if (removed) remove(trace, notes, index);
}

void NotesWindow::remove(const std::string& trace, Notes& notes, std::size_t index) {
  notes.removed.push_back(std::move(notes.notes[index]));
  notes.notes.erase(notes.notes.begin() + static_cast<std::ptrdiff_t>(index));
  save(trace, {notes.removed.back().id, std::nullopt});
}

void NotesWindow::save(const std::string& trace, NoteChange change) {
  writer_.run([this, trace, change = std::move(change)] {
    try {
      save_notes(trace, {change});
    } catch (const std::exception& error) {
      const std::lock_guard lock(unsaved_mutex_);
      unsaved_[change.id] = {trace, change, error.what()};
      throw;
    }
    const std::lock_guard lock(unsaved_mutex_);
    unsaved_.erase(change.id);
  });
}

void NotesWindow::save_typed() {
  for (const auto& [trace, notes] : by_trace_)
    for (const Note& note : notes.notes)
      if (note.id == typed_) save(trace, {note.id, note});
  typed_.clear();
}

void NotesWindow::finish() {
  save_typed();
  writer_.finish();
  std::map<std::string, Unsaved> again;
  {
    const std::lock_guard lock(unsaved_mutex_);
    again = unsaved_;
  }
  for (const auto& [id, unsaved] : again) save(unsaved.trace, unsaved.change);
  writer_.finish();
}

std::string NotesWindow::unsaved() {
  const std::lock_guard lock(unsaved_mutex_);
  return unsaved_.empty() ? "" : unsaved_.begin()->second.why;
}

}  // namespace kvloupe::shell
