#include "app/widgets/tooltip.h"

#include "app/widgets/figure.h"

#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <optional>
#include <utility>

namespace kvloupe::widgets {
namespace {

constexpr int kFramesOfGrace = 3;  // a thing that was not drawn for a moment is the same thing
constexpr float kMostThingEm = 3;  // a higher one is a map: its cell under the mouse is the thing
constexpr float kMostWidthEm = 44;

struct Asked {
  ImGuiID thing = 0;
  ImVec2 thing_from, thing_to;
  std::vector<TooltipLine> lines;
  std::function<void()> draw;  // in place of lines
  float width = 0;             // of what it draws
};

struct State {
  const ImGuiContext* context = nullptr;  // of the window
  ImU32 warning = 0, error = 0;
  std::optional<Asked> asked;
  int num_asked = 0;
  std::string words;
  std::vector<std::pair<ImVec2, ImVec2>> clear;
  ImGuiID thing = 0;
  int last_frame = 0;
  double since = 0;
  bool waiting = false;
  int side = -1;
  ImVec2 drawn_size{0, 0};  // of the last frame, where a function draws
};

State& state() {
  static State all;
  return all;
}

std::pair<ImVec2, ImVec2> around_mouse() {
  const ImVec2 mouse = ImGui::GetMousePos();
  return {{mouse.x - em(0.3F), mouse.y - em(0.5F)}, {mouse.x + em(0.9F), mouse.y + em(1.2F)}};
}

Asked& ask() {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  const ImRect item = g.LastItemData.Rect;
  const bool is_item = item.Contains(ImGui::GetMousePos());
  Asked asked;
  asked.thing = g.HoveredId;
  if (asked.thing == 0) {
    asked.thing = g.CurrentWindow->ID;
    if (is_item) asked.thing = ImHashData(&item, sizeof(item), asked.thing);
  }
  std::tie(asked.thing_from, asked.thing_to) = is_item && item.GetHeight() <= em(kMostThingEm)
                                                   ? std::pair(item.Min, item.Max)
                                                   : around_mouse();
  State& s = state();
  ++s.num_asked;
  return s.asked.emplace(std::move(asked));
}

float area_of_overlap(const std::pair<ImVec2, ImVec2>& a, const std::pair<ImVec2, ImVec2>& b) {
  const float width = std::min(a.second.x, b.second.x) - std::max(a.first.x, b.first.x);
  const float height = std::min(a.second.y, b.second.y) - std::max(a.first.y, b.first.y);
  return std::max(0.0F, width) * std::max(0.0F, height);
}

float wrap_width() { return std::min(em(kMostWidthEm), ImGui::GetMainViewport()->Size.x - em(3)); }

float mark_width(const TooltipLine& line) { return line.mark == 0 ? 0 : em(1.1F); }

ImVec2 size_of(const Asked& asked) {
  const ImVec2 padding = ImGui::GetStyle().WindowPadding;
  if (asked.draw) return {asked.width, std::max(state().drawn_size.y, em(3))};
  ImVec2 size{0, 0};
  for (const TooltipLine& line : asked.lines) {
    const float mark = mark_width(line);
    const ImVec2 text = ImGui::CalcTextSize(line.text.c_str(), nullptr, false, wrap_width() - mark);
    size.x = std::max(size.x, text.x + mark);
    size.y += text.y;
  }
  const float gaps = ImGui::GetStyle().ItemSpacing.y *
                     static_cast<float>(std::max<std::size_t>(1, asked.lines.size()) - 1);
  return {size.x + 2 * padding.x, size.y + gaps + 2 * padding.y};
}

void lines_ui(const Palette& palette, const std::vector<TooltipLine>& lines) {
  for (const TooltipLine& line : lines) {
    if (line.mark != 0) {
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float side = em(0.7F), top = at.y + (ImGui::GetTextLineHeight() - side) / 2;
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, top}, {at.x + side, top + side}, line.mark,
                                                em(0.15F));
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + mark_width(line));
    }
    ImGui::PushTextWrapPos(wrap_width() + ImGui::GetStyle().WindowPadding.x);
    ImGui::PushStyleColor(ImGuiCol_Text, line.is_hint ? palette.muted : palette.text);
    ImGui::TextUnformatted(line.text.c_str());
    ImGui::PopStyleColor();
    ImGui::PopTextWrapPos();
  }
}

}  // namespace

void tooltip(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  std::string text(static_cast<std::size_t>(std::max(0, vsnprintf(nullptr, 0, format, arguments))),
                   '\0');
  va_end(arguments);
  vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  tooltip({TooltipLine{std::move(text)}});
}

void tooltip(std::vector<TooltipLine> lines) {
  std::string words;
  for (const TooltipLine& line : lines)
    if (!line.is_hint) words += (words.empty() ? "" : "\n") + line.text;
  state().words = std::move(words);
  ask().lines = std::move(lines);
}

void tooltip(float width, std::function<void()> draw) {
  Asked& asked = ask();
  asked.width = width;
  asked.draw = std::move(draw);
  state().words.clear();
}

int tooltips_asked() { return state().num_asked; }
const std::string& tooltip_words() { return state().words; }

void keep_clear(ImVec2 from, ImVec2 to) {
  State& s = state();
  if (s.context == ImGui::GetCurrentContext()) s.clear.emplace_back(from, to);
}

void keep_clear_if_warning(ImU32 ink, ImVec2 from, ImVec2 to) {
  if (ink == state().warning || ink == state().error) keep_clear(from, to);
}

ImVec2 place_tooltip(const TooltipRoom& room, ImVec2 size, int& side) {
  const float gap = em(0.35F);
  const float right = std::clamp(room.mouse.x + em(0.5F), room.room_from.x,
                                 std::max(room.room_from.x, room.room_to.x - size.x));
  const float left = std::clamp(room.mouse.x - em(0.5F) - size.x, room.room_from.x,
                                std::max(room.room_from.x, room.room_to.x - size.x));
  const float below = room.thing_to.y + gap, above = room.thing_from.y - gap - size.y;
  const float middle = std::clamp(room.mouse.y - size.y / 2, room.room_from.y,
                                  std::max(room.room_from.y, room.room_to.y - size.y));
  const std::array<ImVec2, 6> places{ImVec2{right, below},
                                     {right, above},
                                     {left, below},
                                     {left, above},
                                     {room.thing_to.x + gap, middle},
                                     {room.thing_from.x - gap - size.x, middle}};
  std::array<float, 6> cost{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::pair<ImVec2, ImVec2> box{places[i], {places[i].x + size.x, places[i].y + size.y}};
    const float inside = area_of_overlap(box, {room.room_from, room.room_to});
    cost[i] = 4 * (size.x * size.y - inside);
    cost[i] += 2 * area_of_overlap(box, {room.thing_from, room.thing_to});
    for (const auto& clear : room.clear) cost[i] += area_of_overlap(box, clear);
  }
  constexpr float kAsGood = 1;  // a square pixel
  const auto best = std::min_element(cost.begin(), cost.end());
  const bool stays = side >= 0 && cost[static_cast<std::size_t>(side)] <= *best + kAsGood;
  if (!stays) side = static_cast<int>(best - cost.begin());
  return places[static_cast<std::size_t>(side)];
}

void draw_tooltip(const Palette& palette) {
  State& s = state();
  s.context = ImGui::GetCurrentContext();
  s.warning = palette.warning;
  s.error = palette.error;
  const auto clear = std::exchange(s.clear, {});
  const auto asked = std::exchange(s.asked, std::nullopt);
  s.num_asked = 0;
  s.waiting = false;
  if (!asked) return;
  const int frame = ImGui::GetFrameCount();
  const double now = ImGui::GetTime();
  if (asked->thing != s.thing || frame - s.last_frame > kFramesOfGrace) {
    s.thing = asked->thing;
    s.since = now;
    s.side = -1;
    s.drawn_size = {0, 0};
  }
  s.last_frame = frame;
  s.waiting = now - s.since < kTooltipWait;
  if (s.waiting) return;
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const float edge = em(0.2F);
  const ImVec2 size = size_of(*asked);
  ImGui::SetNextWindowPos(place_tooltip(
      {{viewport.Pos.x + edge, viewport.Pos.y + edge},
       {viewport.Pos.x + viewport.Size.x - edge, viewport.Pos.y + viewport.Size.y - edge},
       asked->thing_from,
       asked->thing_to,
       ImGui::GetMousePos(),
       clear},
      size, s.side));
  if (asked->draw) ImGui::SetNextWindowSize({asked->width, 0});
  if (ImGui::BeginTooltip()) {
    if (asked->draw)
      asked->draw();
    else
      lines_ui(palette, asked->lines);
    s.drawn_size = ImGui::GetWindowSize();
    ImGui::EndTooltip();
  }
}

bool tooltip_waits() { return state().waiting; }

}  // namespace kvloupe::widgets
