// See watched_text.h.
#include "app/panels/watched_text.h"

#include "app/state/span_choices.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace kvloupe::panels {
namespace {

using state::Place;
using trace::TokenSpan;

constexpr std::int32_t kMostTokens = 60, kBeside = 8;

// The longest named span that holds the key and can be shown whole.
const TokenSpan* named_span(const Place& place, std::int32_t key) {
  const TokenSpan* found = nullptr;
  for (const TokenSpan& span : place.info().spans) {
    const std::int32_t length = span.end - span.begin;
    if (key < span.begin || key >= span.end || length < 2 || length > kMostTokens) continue;
    if (!state::is_landmark(span)) continue;
    if (found == nullptr || length > found->end - found->begin) found = &span;
  }
  return found;
}

// What is shown: the text of the keys, the named span around a single key, or its neighbours.
trace::TokenRange range_of(const Place& place, const trace::KeySet& keys, std::int32_t key) {
  trace::TokenRange range{keys.first(), keys.bound()};
  if (keys.size() == 1) {
    const TokenSpan* around = named_span(place, keys.first());
    range = around != nullptr ? trace::TokenRange{around->begin, around->end}
                              : trace::TokenRange{range.begin - kBeside, range.end + kBeside};
  }
  if (range.end - range.begin > kMostTokens) {
    const std::int32_t middle = key >= 0 ? key : range.begin;
    range.begin = std::clamp(middle - kMostTokens / 2, range.begin, range.end - kMostTokens);
    range.end = range.begin + kMostTokens;
  }
  range.begin = std::max(0, range.begin);
  range.end = std::min(range.end, static_cast<std::int32_t>(place.trace->text.size()));
  return range;
}

bool token_ui(DrawContext& context, const Place& place, std::int32_t token, bool watched,
              bool explained, float right) {
  const std::string& text = place.trace->text[static_cast<std::size_t>(token)];
  const ImVec2 words = ImGui::CalcTextSize(text.c_str());
  const ImVec2 size(std::max(words.x, 3.0F), words.y);
  if (ImGui::GetCursorScreenPos().x + size.x > right) ImGui::NewLine();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 end(at.x + size.x, at.y + size.y);
  bool pressed = false;
  if (context.figure)
    ImGui::Dummy(size);
  else
    pressed = ImGui::InvisibleButton(fmt::format("###token {}", token).c_str(), size);
  const bool hovered = !context.figure && ImGui::IsItemHovered();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  if (explained)
    draw->AddRectFilled(at, end, context.palette.accent, widgets::em(0.15F));
  else if (hovered)
    draw->AddRectFilled(at, end, widgets::with_alpha(context.palette.accent, 0.25F),
                        widgets::em(0.15F));
  draw->AddText(at,
                explained ? context.palette.on_accent
                : watched ? context.palette.text
                          : context.palette.faint,
                text.c_str());
  if (hovered) context.workspace.pointer.at(place, token);
  if (hovered) widgets::tooltip("%s", token_line(place, token).c_str());
  ImGui::SameLine(0, 0);
  return pressed;
}

void tokens_ui(DrawContext& context, const Place& place, const trace::KeySet& keys,
               const trace::TokenRange& range, std::int32_t key) {
  const widgets::FontScope mono(widgets::Type::Number);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, widgets::em(0.15F)});
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  std::optional<std::int32_t> chosen;
  for (std::int32_t t = range.begin; t < range.end; ++t)
    if (token_ui(context, place, t, keys.contains(t), t == key, right)) chosen = t;
  ImGui::NewLine();
  ImGui::PopStyleVar();
  if (chosen) context.workspace.cursor.set_keys(*chosen, *chosen + 1);
}

std::string words_of_tokens(const trace::KeySet& keys) {
  return keys.ranges().size() > 1
             ? state::keys_words(keys)
             : state::range_words("token", "tokens", keys.first(), keys.bound());
}

}  // namespace

void watched_text_ui(DrawContext& context, const Place& place, const state::WatchedKey& watched) {
  const auto span = state::watched_keys(place);
  if (!span) return;
  const std::int32_t key = watched.position;
  tokens_ui(context, place, span->keys, range_of(place, span->keys, key), key);
  std::string where = key < 0
                          ? words_of_tokens(span->keys)
                          : fmt::format("key {}, {}", format_count(key),
                                        chunk_name(place.info(), place.info().chunk_of_token(key)));
  if (!watched.note.empty())
    where = fmt::format("{}: {}, {}", state::readable_name(span->name), where, watched.note);
  if (watched.loading && key < 0) where += ": looking for the key that was lost\u2026";
  widgets::text_wrapped(context.palette.muted, where);
  if (!watched.error.empty()) widgets::text_wrapped(context.palette.error, watched.error);
  const TokenSpan* around = watched.of_span ? nullptr : named_span(place, span->keys.first());
  if (context.figure || around == nullptr) return;
  beside_ui(widgets::em(0.6F), widgets::em(9));
  const std::string label =
      fmt::format("all of {}###whole span", state::readable_name(around->name));
  if (ImGui::SmallButton(label.c_str()))
    context.workspace.cursor.set_keys(around->begin, around->end);
}

}  // namespace kvloupe::panels
