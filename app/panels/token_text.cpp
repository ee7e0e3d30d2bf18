#include "app/panels/token_text.h"

#include "app/panels/show_control.h"
#include "app/state/labels.h"
#include "app/state/span_choices.h"
#include "app/widgets/meanings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using state::Place;

using Colors = TokenColors;

// Of a token that both could keep, where both are known.
std::optional<Colors> colors_of_difference(const widgets::Palette& p,
                                           const std::vector<Strip>& strips, std::int32_t token) {
  const auto chunk = static_cast<std::size_t>(strips[0].place.chunk);
  for (const Strip& strip : strips)
    if (strip.map == nullptr || !strip.map->map.knows(chunk)) return std::nullopt;
  const KeptBy who =
      analysis::kept_by(strips[0].map->map.at(chunk, token), strips[1].map->map.at(chunk, token));
  if (who == KeptBy::NoCandidate) return std::nullopt;
  if (who == KeptBy::Neither) return Colors{0, p.muted};
  return Colors{widgets::mix(p.panel, widgets::color_of(p, who), who == KeptBy::Both ? 0.7 : 0.42),
                p.text};
}

// What one token is drawn in: of A and B together the bar above its letters and the one below.
struct Look {
  Colors upper, lower;
};
Look look_of(const widgets::Palette& p, const std::vector<Strip>& strips, bool difference,
             std::int32_t token) {
  const auto of_one = [&](const Strip& strip) {
    return colors_of(p, state::look_of(strip.map, strip.verdicts, strip.place, token));
  };
  if (difference) {
    const Colors colors = colors_of_difference(p, strips, token).value_or(of_one(strips[0]));
    return {colors, colors};
  }
  return {of_one(strips.front()), of_one(strips.back())};
}

const char* words_of(analysis::KeyVerdict verdict) {
  switch (verdict) {
    case analysis::KeyVerdict::Hit: return "kept, a true key";
    case analysis::KeyVerdict::Miss: return "lost: a true key, not kept";
    case analysis::KeyVerdict::Waste: return "kept, no true key";
    case analysis::KeyVerdict::Neither: return "not kept, no true key";
  }
  return "";
}

std::string fate_of(const Strip& strip, std::int32_t token, const std::string& who) {
  const auto i = static_cast<std::size_t>(token);
  std::string text;
  if (strip.verdicts != nullptr && i < strip.verdicts->cell.verdict.size() &&
      token < strip.place.chunk_info().begin)
    text += fmt::format("\n{}{}", who, words_of(strip.verdicts->cell.verdict[i]));
  if (strip.map != nullptr)
    if (const auto death = strip.map->map.death_of(token))
      text += fmt::format("\n{}evicted after {}", who, chunk_name(strip.place.info(), *death));
  return text;
}

std::string words_of(const std::vector<Strip>& strips, std::int32_t token) {
  const Strip& first = strips.front();
  const trace::TraceInfo& info = first.place.info();
  std::string text = fmt::format("token {}\n{}", token_line(first.place, token),
                                 chunk_name(info, info.chunk_of_token(token)));
  if (first.verdicts != nullptr && token < first.place.chunk_info().begin)
    text += fmt::format("\n{} of the attention of this {} to the keys before it",
                        share_text(first.verdicts->share_at(token)),
                        step_word(first.place.chunk_info().phase));
  for (std::size_t s = 0; s < strips.size(); ++s)
    text += fate_of(strips[s], token, strips.size() == 1 ? "" : letter_of_method(s) + ": ");
  return text;
}

}  // namespace

TokenText::Mouse TokenText::draw(DrawContext& context, const Spec& spec) {
  const widgets::FontScope mono(widgets::Type::Number);
  // Of two methods each has a bar above or below the letters.
  const bool bars = spec.strips.size() > 1 && !spec.difference;
  const float line_height = ImGui::GetTextLineHeight() * (bars ? 2.3F : 1.42F);
  margin_ = bars ? widgets::em(1) : 0;
  ImVec2 size = spec.size;
  // It ends with a whole line. A figure has nothing to scroll with; the window's bar is always there: one
  // that came later would wrap the text anew, and lose where it was scrolled to.
  size.y = std::max(1.0F, std::floor(size.y / line_height)) * line_height;
  ImGui::BeginChild(
      spec.id, size, ImGuiChildFlags_None,
      context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_AlwaysVerticalScrollbar);
  const Mouse mouse = text_ui(context, spec, line_height);
  ImGui::EndChild();
  return mouse;
}

// Lays the text out for the room; false while nothing of this trace stands.
bool TokenText::lay_out(DrawContext& context, const state::OpenTrace& trace) {
  constexpr std::size_t kTokensPerFrame = 20'000;
  const float room = ImGui::GetContentRegionAvail().x - margin_ - widgets::em(0.6F);
  const std::string wanted = fmt::format("{}|{}|{}", trace.key(), room, ImGui::GetFontSize());
  if (layout_.key == wanted) return true;
  if (next_layout_.key != wanted) next_layout_.begin(wanted);
  const std::size_t most =
      context.figure ? std::numeric_limits<std::size_t>::max() : kTokensPerFrame;
  if (next_layout_.advance(trace, room, most)) {
    layout_ = std::move(next_layout_);
    next_layout_ = {};
  }
  return layout_.key.starts_with(trace.key() + "|");
}

TokenText::Mouse TokenText::text_ui(DrawContext& context, const Spec& spec, float line_height) {
  const Place& here = spec.here;
  if (!lay_out(context, *here.trace)) {
    widgets::text_colored(context.palette.muted, "Laying out the text\u2026");
    return {};
  }
  follow(context, here, line_height);
  const ImVec2 corner = ImGui::GetCursorScreenPos(), origin(corner.x + margin_, corner.y);
  const std::int32_t num_lines = layout_.num_lines();
  // Scrolled to a line it stands at a whole pixel, which may be above the line's begin.
  const auto first = std::clamp(static_cast<std::int32_t>((ImGui::GetScrollY() + 1) / line_height),
                                0, num_lines - 1);
  const auto last = std::min(
      num_lines, first + static_cast<std::int32_t>(ImGui::GetWindowHeight() / line_height) + 2);
  const auto [from, to] = layout_.tokens_of(first, last);
  top_ = {from, std::max(0.0F, ImGui::GetScrollY() - line_height * static_cast<float>(first))};
  const auto span = state::watched_keys(here);
  sees_span_ = span && span->keys.first() >= from && span->keys.first() < to;
  for (std::int32_t t = from; t < to; ++t) token_ui(context, spec, here, t, origin, line_height);
  if (margin_ > 0)
    for (std::int32_t line = first; line < last; ++line)
      letters_ui(context, {corner.x, corner.y + line_height * static_cast<float>(line)},
                 line_height);
  outline_ui(context, here, origin, line_height, from, to);
  underline_ui(context, here, origin, line_height, from, to);
  ImGui::Dummy({1, line_height * static_cast<float>(num_lines)});
  if (context.figure || !ImGui::IsWindowHovered()) return {};
  return point_at(context, spec, origin, line_height, from, to);
}

void TokenText::token_ui(DrawContext& context, const Spec& spec, const Place& here,
                         std::int32_t token, ImVec2 origin, float line_height) const {
  const Look look = look_of(context.palette, spec.strips, spec.difference, token);
  const auto i = static_cast<std::size_t>(token);
  const ImVec2 at(origin.x + layout_.x[i],
                  origin.y + line_height * static_cast<float>(layout_.line[i]));
  const ImVec2 end(at.x + layout_.width[i], at.y + line_height - 2);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  if (spec.strips.size() == 1 || spec.difference) {
    if (look.upper.back != 0 || look.upper.evicted)
      back_ui(context, at, {end.x - 0.5F, end.y}, look.upper);
  } else {
    // Nearer to their letters than to the bars of the next line.
    const float off = 0.2F * ImGui::GetTextLineHeight();
    const auto span = state::watched_keys(here);
    edges_ui(context, {at.x, at.y + off}, {end.x - 0.5F, end.y - off}, look.upper, look.lower,
             span && span->keys.contains(token));
  }
  if (token == spec.pointed)
    draw->AddRect({at.x - 1, at.y}, end, context.palette.text, 2, 0, widgets::em(0.11F));
  if (spec.alone && spec.alone(token))  // dotted below: the other prompt has no such token
    for (float x = at.x; x < end.x - 2; x += widgets::em(0.35F))
      draw->AddLine({x, end.y}, {std::min(x + widgets::em(0.18F), end.x), end.y},
                    context.palette.warning, widgets::em(0.12F));
  const ImU32 ink = look.lower.ink == context.palette.text ? look.lower.ink : look.upper.ink;
  draw->AddText({at.x, (at.y + end.y - ImGui::GetTextLineHeight()) / 2}, ink,
                here.trace->text[i].c_str());
}

// Of a line, whose bars stand above its letters and whose below.
void TokenText::letters_ui(DrawContext& context, ImVec2 at, float line_height) {
  const widgets::FontScope small(widgets::Type::Caption);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float height = ImGui::GetTextLineHeight();
  for (const state::Slot slot : state::kSlots) {
    const float middle = line_height * (slot == state::Slot::A ? 0.25F : 0.72F);
    draw->AddText({at.x, at.y + middle - height / 2}, widgets::color_of_slot(context.palette, slot),
                  slot == state::Slot::A ? "A" : "B");
  }
}

// Evicted is a line below the letters, of a lost key hatched: on a hatching letters could not be read.
void TokenText::back_ui(DrawContext& context, ImVec2 from, ImVec2 to, const TokenColors& colors) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const widgets::Palette& p = context.palette;
  if (colors.back != 0) draw->AddRectFilled(from, to, colors.back, 2);
  if (!colors.evicted) return;
  if (colors.back != 0)
    widgets::key_rect(draw, p, {from.x, to.y - widgets::em(0.25F)}, to, p.evicted, 2);
  else
    draw->AddLine({from.x, to.y - 1}, {to.x, to.y - 1}, p.evicted, widgets::em(0.1F));
}

// A's fate above the letters, B's below; the letters stay free of both. What is evicted but no true key
// has no bar, for it may be most of a text, but where it is watched.
void TokenText::edges_ui(DrawContext& context, ImVec2 from, ImVec2 to, const TokenColors& upper,
                         const TokenColors& lower, bool watched) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float bar = widgets::em(0.28F);
  const auto edge = [&](const TokenColors& colors, float y, float inwards) {
    const auto rect = [&](float height, ImU32 color) {
      draw->AddRectFilled({from.x, std::min(y, y + inwards * height)},
                          {to.x, std::max(y, y + inwards * height)}, color);
      y += inwards * height;
    };
    if (colors.edge == 0 && !watched) return;
    if (colors.evicted) rect(bar * 0.5F, context.palette.evicted);
    if (colors.edge != 0) rect(bar, colors.edge);
  };
  edge(upper, from.y, 1);
  edge(lower, to.y - 1, -1);
}

// One around the chosen keys of each line.
void TokenText::outline_ui(DrawContext& context, const Place& here, ImVec2 origin,
                           float line_height, std::int32_t from, std::int32_t to) const {
  for (const trace::TokenRange& range : here.keys.ranges_in(from, to))
    for (std::int32_t t = range.begin; t < range.end;) {
      const auto begin = static_cast<std::size_t>(t);
      while (t < range.end && layout_.line[static_cast<std::size_t>(t)] == layout_.line[begin]) ++t;
      const auto end = static_cast<std::size_t>(t - 1);
      const float y = origin.y + line_height * static_cast<float>(layout_.line[begin]);
      ImGui::GetWindowDrawList()->AddRect(
          {origin.x + layout_.x[begin] - 1, y - 2},
          {origin.x + layout_.x[end] + layout_.width[end], y + line_height}, context.palette.text,
          2, 0, widgets::em(0.11F));
    }
}

void TokenText::underline_ui(DrawContext& context, const Place& here, ImVec2 origin,
                             float line_height, std::int32_t from, std::int32_t to) const {
  for (const trace::TokenSpan& span : here.info().spans) {
    if (!state::is_landmark(span)) continue;
    const bool needle = span.name.rfind("needle", 0) == 0;
    for (std::int32_t t = std::max(from, span.begin); t < std::min(to, span.end); ++t) {
      const auto i = static_cast<std::size_t>(t);
      const float y = origin.y + line_height * static_cast<float>(layout_.line[i] + 1) - 2;
      const float x = origin.x + layout_.x[i];
      ImGui::GetWindowDrawList()->AddLine({x, y}, {x + layout_.width[i], y},
                                          needle ? context.palette.text : context.palette.muted,
                                          widgets::em(needle ? 0.16F : 0.1F));
    }
  }
}

// Scrolls to keys or to a chunk that were chosen elsewhere. A text begins at the watched span,
// where the chunk sees it; in another room the span stays in view, or else the text where it was.
void TokenText::follow(DrawContext& context, const Place& here, float line_height) {
  // Each workspace has a window of the view, with a scroll of its own.
  if (followed_.trace != here.trace) begun_.clear();
  const bool new_text = begun_.insert(ImGui::GetID("text")).second;
  const bool new_keys = here.has_keys() && here.keys != followed_.keys;
  const trace::ChunkInfo& chunk = here.chunk_info();
  const auto span = state::watched_keys(here);
  const std::pair room(ImGui::GetWindowHeight(), line_height);
  // The room of the first frames is not yet that of the view, and a scroll has no room for what was not
  // there in the frame before: the same token is looked for until somebody scrolls.
  constexpr int kSettling = 30;
  // The click that opens the view is not on its text.
  const bool touched = ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem) &&
                       (ImGui::GetIO().MouseWheel != 0 || ImGui::IsAnyMouseDown());
  settling_ = new_text ? kSettling : touched ? 0 : std::max(0, settling_ - 1);
  const bool settles = settling_ > 0;
  if (wanted_top_ && !new_text)
    scroll_to_line(*std::exchange(wanted_top_, std::nullopt), line_height);
  else if ((new_text || new_keys || settles) && span &&
           (here.has_keys() || span->keys.first() < chunk.end()))
    scroll_to(span->keys.first(), line_height, 0.35F);
  else if (new_text || settles || here.chunk != followed_.chunk)
    scroll_to(chunk.begin, line_height, context.figure ? 0.0F : 0.35F);
  else if (followed_layout_ != layout_.key || room != followed_room_)
    sees_span_&& span ? scroll_to(span->keys.first(), line_height, 0.35F)
                      : scroll_to(top_.token, line_height, 0);
  followed_ = here;
  followed_layout_ = layout_.key;
  followed_room_ = room;
}

// The token's line comes to this share of the height, unless it is in view.
void TokenText::scroll_to(std::int32_t token, float line_height, float share) const {
  if (token < 0 || token >= static_cast<std::int32_t>(layout_.line.size())) return;
  const float height = ImGui::GetWindowHeight();
  const float y = line_height * static_cast<float>(layout_.line[static_cast<std::size_t>(token)]);
  if (y >= ImGui::GetScrollY() && y + line_height < ImGui::GetScrollY() + height) return;
  ImGui::SetScrollY(std::max(0.0F, std::floor((y - height * share) / line_height) * line_height));
}

void TokenText::scroll_to_line(Top top, float line_height) const {
  if (top.token < 0 || top.token >= static_cast<std::int32_t>(layout_.line.size())) return;
  const std::int32_t line = layout_.line[static_cast<std::size_t>(top.token)];
  ImGui::SetScrollY(line_height * static_cast<float>(line) + top.cut);
}

TokenText::Mouse TokenText::point_at(DrawContext& context, const Spec& spec, ImVec2 origin,
                                     float line_height, std::int32_t from, std::int32_t to) {
  const ImVec2 mouse = ImGui::GetMousePos();
  const auto line = static_cast<std::int32_t>((mouse.y - origin.y) / line_height);
  for (std::int32_t t = from; t < to; ++t) {
    const auto i = static_cast<std::size_t>(t);
    if (layout_.line[i] != line || mouse.x < origin.x + layout_.x[i] ||
        mouse.x >= origin.x + layout_.x[i] + layout_.width[i])
      continue;
    std::string words = words_of(spec.strips, t);
    if (spec.alone && spec.alone(t)) words += "\nin this prompt alone";
    context.workspace.pointer.at(spec.here, t);
    widgets::tooltip(
        {{std::move(words)},
         {"click or drag: follow these keys; double click: go to the chunk", 0, true}});
    return spec.strips.front().stale ? Mouse{t, -1, -1, false} : pressed(t);
  }
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) drag_from_ = -1;
  return {};
}

TokenText::Mouse TokenText::pressed(std::int32_t token) {
  Mouse mouse{token, -1, -1, ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)};
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) drag_from_ = token;
  if (ImGui::IsMouseDown(ImGuiMouseButton_Left) && drag_from_ >= 0) {
    mouse.begin = std::min(drag_from_, token);
    mouse.end = std::max(drag_from_, token) + 1;
  }
  return mouse;
}

}  // namespace kvloupe::panels
