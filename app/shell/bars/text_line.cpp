#include "app/shell/bars/text_line.h"

#include "app/panels/token_colors.h"
#include "app/panels/view_frame.h"
#include "app/state/perspectives.h"
#include "app/state/shown_methods.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <imgui_internal.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

using state::Slot;
using state::TokenLook;

constexpr const char* kName = "text line";

// A view of the workspace shown has A and B side by side.
bool shows_both(const state::Workspace& workspace) {
  const auto& views = state::perspective_or_first(workspace.selection().perspective).views;
  return std::any_of(views.begin(), views.end(), [&](const state::PlacedView& placed) {
    const state::ViewInfo* view = state::find_view(placed.id);
    return view != nullptr && show_of(workspace, *view) != state::Show::One;
  });
}

const char* words_of(TokenLook look) {
  switch (look) {
    case TokenLook::Plain: return "not kept";
    case TokenLook::Future: return "not seen by the chunk";
    case TokenLook::Kept: return "kept";
    case TokenLook::Sink: return "kept as a sink";
    case TokenLook::Recent: return "kept as recent";
    case TokenLook::Dense: return "all kept (dense)";
    case TokenLook::Current: return "of the chunk itself";
    case TokenLook::Missed: return "missed: a true key, not kept";
    case TokenLook::MissedEvicted: return "missed: a true key, evicted";
    case TokenLook::Evicted: return "evicted";
  }
  return "";
}

// Tokens go on inside a word where no space lies before them.
bool begins_word(const std::vector<std::string>& text, std::int32_t token) {
  const std::string& own = text[static_cast<std::size_t>(token)];
  return token == 0 || own.empty() || own.front() == ' ' ||
         text[static_cast<std::size_t>(token) - 1].ends_with(' ');
}

}  // namespace

// The key or query under the mouse; one that is chosen elsewhere, or the begin of another chunk, takes its place.
void TextLine::follow(const state::Workspace& workspace) {
  const state::Place& here = workspace.place();
  const auto span = state::watched_keys(here);
  const bool other_trace = here.trace != followed_.trace;
  if (other_trace || here.keys != followed_.keys)
    token_ = span ? span->keys.first() : here.chunk_info().begin;
  followed_ = here;
  const auto& pointed = workspace.pointer.last();
  if (pointed && pointed->token() >= 0 && pointed->view != kName &&
      (!pointed->place || pointed->place->trace == here.trace))
    token_ = pointed->token();
  token_ = std::clamp(token_, 0, std::max(0, here.info().num_tokens - 1));
}

void TextLine::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  follow(workspace);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoScrollbar |
                                      ImGuiWindowFlags_NoScrollWithMouse |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(0.8F), widgets::em(0.25F)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, palette.panel);
  if (ImGui::BeginViewportSideBar("##text line", ImGui::GetMainViewport(), ImGuiDir_Down,
                                  widgets::em(2.1F), kFlags)) {
    const Slot shown = workspace.selection().shown, other = other_than(shown);
    const auto ask = [&](Slot slot) {
      return looks_[static_cast<std::size_t>(slot)].ask(
          workspace, {workspace.place(), workspace.method(slot)});
    };
    const Looks above = ask(shown);
    if (!workspace.method(other).empty() && shows_both(workspace)) {
      const Looks below = ask(other);
      tokens_ui(workspace, palette, above, &below);
    } else {
      tokens_ui(workspace, palette, above, nullptr);
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void TextLine::tokens_ui(state::Workspace& workspace, const widgets::Palette& palette,
                         const Looks& above, const Looks* below) const {
  const state::Place place = workspace.place();
  const std::vector<std::string>& text = place.trace->text;
  if (text.empty()) return;
  const widgets::FontScope mono(widgets::Type::Number);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float right = origin.x + ImGui::GetContentRegionAvail().x;
  const float left = origin.x + widgets::em(4.2F), line = ImGui::GetTextLineHeight();
  const float mark = widgets::em(0.22F);
  const auto width = [&](std::int32_t token) {
    return std::max(2.0F, ImGui::CalcTextSize(text[static_cast<std::size_t>(token)].c_str()).x);
  };
  const auto look = [&](const Looks& looks, std::int32_t token) {
    const bool known = looks && looks.question.place.trace == place.trace &&
                       token < static_cast<std::int32_t>(looks->looks.size());
    return known ? looks->at(token) : TokenLook::Plain;
  };
  // From the token in the middle to the left, until there is no room.
  std::int32_t first = token_;
  float x = (left + right - width(token_)) / 2;
  while (first > 0 && x > left) x -= width(--first);
  // No token is cut at the left, and no word begins in its middle if its begin is near.
  while (first < token_ && x < left) x += width(first++);
  constexpr int kNear = 4;
  for (int i = 0; i < kNear && first < token_ && !begins_word(text, first); ++i)
    x += width(first++);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddText(origin, palette.muted, format_count(token_).c_str());
  draw->PushClipRect({left, origin.y - widgets::em(0.2F)}, {right, origin.y + 2 * line}, true);
  const ImVec2 mouse = ImGui::GetMousePos();
  const bool hovered = ImGui::IsWindowHovered() && mouse.x >= left && mouse.x < right;
  float watched_from = 0, watched_to = -1;
  const auto watched_ui = [&] {  // around keys that lie beside each other
    if (watched_to >= 0)
      draw->AddRect({watched_from, origin.y - 1}, {watched_to, origin.y + line + 1}, palette.accent,
                    2);
    watched_to = -1;
  };
  for (std::int32_t t = first; t < std::ssize(text) && x < right; ++t) {
    const float to = x + width(t);
    const panels::TokenColors colors = panels::colors_of(palette, look(above, t));
    if (colors.back != 0)
      draw->AddRectFilled({x, origin.y}, {to - 0.5F, origin.y + line}, colors.back, 2);
    if (below != nullptr)
      if (const ImU32 back = panels::colors_of(palette, look(*below, t)).back; back != 0)
        draw->AddRectFilled({x, origin.y + line + 1}, {to - 0.5F, origin.y + line + 1 + mark},
                            back);
    if (place.keys.contains(t)) {
      if (watched_to < 0) watched_from = x - 1;
      watched_to = to;
    } else {
      watched_ui();
    }
    if (t == token_)
      draw->AddRect({x - 1, origin.y - 1}, {to, origin.y + line + 1}, palette.text, 2, 0,
                    widgets::em(0.11F));
    draw->AddText({x, origin.y}, colors.ink, text[static_cast<std::size_t>(t)].c_str());
    if (hovered && mouse.x >= x && mouse.x < to) {
      workspace.pointer.at(place, t);
      workspace.pointer.now()->view = kName;
      std::vector<widgets::TooltipLine> lines{
          {"token " + panels::token_line(place, t)},
          {std::string(1, letter_of(workspace.selection().shown)) + ": " + words_of(look(above, t)),
           colors.back}};
      if (below != nullptr)
        lines.push_back({std::string(1, letter_of(other_than(workspace.selection().shown))) + ": " +
                             words_of(look(*below, t)),
                         panels::colors_of(palette, look(*below, t)).back});
      workspace.pointer.now()->words = lines[0].text + "\n" + lines[1].text;
      lines.push_back({"click: follow this key", 0, true});
      widgets::tooltip(std::move(lines));
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) workspace.cursor.set_keys(t, t + 1);
    }
    x = to;
  }
  watched_ui();
  draw->PopClipRect();
}

}  // namespace kvloupe::shell
