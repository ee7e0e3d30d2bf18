#include "app/shell/windows/cursor_menu.h"

#include "app/panels/view_frame.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>

namespace kvloupe::shell {
namespace {

constexpr const char* kId = "##under the mouse";
constexpr const char* kInspector = "miss_inspector";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string words_of_place(const state::Pointed& pointed) {
  const state::Place& place = *pointed.place;
  return fmt::format("layer {}, query head {}, {}{}", place.layer, place.q_head,
                     state::chunk_name(place.info(), place.chunk),
                     pointed.query < 0 ? "" : fmt::format(", query {}", pointed.query));
}

}  // namespace

std::string copied_text(const state::Pointed& pointed) {
  return pointed.where() ? pointed.words + "\n" + panels::place_caption(*pointed.where())
                         : pointed.words;
}

bool CursorMenu::can_copy() const {
  const auto& pointed = workspace_.pointer.last();
  return pointed && !pointed->words.empty();
}

void CursorMenu::copy() {
  if (can_copy()) copy_text(copied_text(*workspace_.pointer.last()));
}

void CursorMenu::copy_link() {
  const state::Pointed pointed = workspace_.pointer.last().value_or(state::Pointed{});
  bool copied = false;
  panels_.as_seen(pointed.view, [&](const state::ViewInfo& view) {
    if (view.shows_results) return;  // no place of the trace
    copy_link(pointed, &view);
    copied = true;
  });
  if (!copied) copy_link({}, nullptr);
}

void CursorMenu::copy_link(const state::Pointed& pointed, const state::ViewInfo* view) {
  state::Place place = workspace_.place();
  if (pointed.is_of(place.trace)) {
    place = *pointed.where();
    if (pointed.has_keys()) place.keys = pointed.keys;
  }
  copy_text(exporter_.link_command_of(view, &place));
}

void CursorMenu::copy_text(const std::string& text) {
  ImGui::SetClipboardText(text.c_str());
  messages_.say("Copied: " + first_line(text), false);
}

void CursorMenu::draw(const widgets::Palette& palette, const std::string& folder) {
  const auto& pointed = workspace_.pointer.now();
  const ImVec2 drag = ImGui::GetMouseDragDelta(ImGuiMouseButton_Right, 3.0F);
  const bool clicked = ImGui::IsMouseReleased(ImGuiMouseButton_Right) && drag.x == 0 && drag.y == 0;
  if (clicked && pointed && workspace_.has_trace() && !widgets::popup_is_open()) {
    clicked_ = *pointed;
    ImGui::OpenPopup(kId);
  }
  if (!clicked_) return;
  if (!ImGui::BeginPopup(kId)) {
    clicked_.reset();
    return;
  }
  const state::Pointed here = *clicked_;  // what is chosen may close the trace
  if (!here.words.empty())
    widgets::text_colored(palette.muted, widgets::elided(first_line(here.words), widgets::em(26)));
  if (here.menu) {
    here.menu();
    ImGui::Separator();
  }
  // Of another trace nothing leads anywhere in this one.
  if ((here.has_keys() || here.place) && here.is_of(workspace_.place().trace)) {
    keys_ui(here);
    ImGui::Separator();
  }
  copy_ui(here);
  view_ui(here, folder);
  ImGui::EndPopup();
}

void CursorMenu::copy_ui(const state::Pointed& pointed) {
  if (ImGui::MenuItem("Copy the value", widgets::key_name("copy").c_str(), false,
                      !pointed.words.empty()))
    copy_text(copied_text(pointed));
  if (ImGui::MenuItem("Copy the row", nullptr, false, !pointed.row.empty())) copy_text(pointed.row);
}

void CursorMenu::keys_ui(const state::Pointed& pointed) {
  if (pointed.has_keys()) {
    if (ImGui::MenuItem("Why was it lost?")) {
      go_to(pointed, true, "lost");
      panels_.show(kInspector);
    }
    if (ImGui::MenuItem(fmt::format("Watch {}###watch", state::keys_words(pointed.keys)).c_str()))
      workspace_.cursor.set_keys(pointed.keys);
  }
  if (pointed.place &&
      ImGui::MenuItem(fmt::format("Go to {}###go", words_of_place(pointed)).c_str()))
    go_to(pointed, false, "");
  if (!ImGui::BeginMenu("Open beside")) return;
  for (const state::ViewInfo& view : state::views())
    if (!view.shows_results && view.id != pointed.view && ImGui::MenuItem(view.title.c_str())) {
      go_to(pointed, true, "");
      panels_.open_here(view.id, pointed.view);
    }
  ImGui::EndMenu();
}

// Of what the view shows: it may be locked, or a copy with options of its own.
void CursorMenu::view_ui(const state::Pointed& pointed, const std::string& folder) {
  panels_.as_seen(pointed.view, [&](const state::ViewInfo& view) {
    if (ImGui::MenuItem("Copy the link", widgets::key_name("link.copy").c_str()))
      copy_link(pointed, &view);
    if (view.has(state::Format::Png) && ImGui::MenuItem("Export the picture\u2026"))
      exporter_.ask(view, state::Format::Png, folder);
    if (!ImGui::BeginMenu("This view")) return;
    if (panels_.context_menu) panels_.context_menu(view);
    ImGui::EndMenu();
  });
}

void CursorMenu::go_to(const state::Pointed& pointed, bool watch, const std::string& perspective) {
  workspace_.cursor.change("", [&](state::Selection& s) {
    if (pointed.place) {
      s.place.layer = pointed.place->layer;
      s.place.q_head = pointed.place->q_head;
      s.place.chunk = pointed.place->chunk;
      s.place.query = pointed.place->query;
    }
    if (watch && pointed.has_keys()) {
      s.place.keys = pointed.keys;
      s.place.watches_nothing = false;
    }
    if (!perspective.empty()) s.perspective = perspective;
  });
}

}  // namespace kvloupe::shell
