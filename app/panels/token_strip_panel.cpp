// token_strip: the text itself, each token coloured by what happened to its key in the current
// chunk.
#include "app/state/questions/kept/token_strip.h"

#include "app/panels/show_control.h"
#include "app/state/labels.h"
#include "app/widgets/meanings.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using analysis::KeyState;
using state::KvMapQuestion;
using state::Place;
using state::SelectedVsTrueQuestion;
using state::Show;
using state::Slot;
using state::TextSearchQuestion;
using state::TokenLook;
using widgets::legend_of;
using widgets::Meaning;
using Map = state::Result<KvMapQuestion>;

constexpr const char* kView = "token_strip";

// Where each token stands when the text is wrapped to a width. A frame lays out so many tokens at
// most: a long text takes several.
class TextLayout {
 public:
  std::string key;                       // trace, width and font
  std::vector<float> x;                  // left edge, [T]
  std::vector<float> width;              // [T]
  std::vector<std::int32_t> line_begin;  // first token of each line
  std::vector<std::int32_t> line;        // [T]

  void begin(const std::string& new_key) {
    *this = {};
    key = new_key;
    line_begin.push_back(0);
  }
  // True when all tokens stand.
  bool advance(const state::OpenTrace& trace, float room, std::size_t most_tokens) {
    const std::vector<std::string>& raw = trace.session->token_texts();
    const std::size_t last = trace.text.size();
    const std::size_t end = last - x.size() > most_tokens ? x.size() + most_tokens : last;
    for (std::size_t t = x.size(); t < end; ++t) {
      const float w = std::max(2.0F, ImGui::CalcTextSize(trace.text[t].c_str()).x);
      if (at_ > 0 && at_ + w > room) new_line(t);
      x.push_back(at_);
      width.push_back(w);
      line.push_back(static_cast<std::int32_t>(line_begin.size()) - 1);
      at_ += w;
      if (raw[t].find('\n') != std::string::npos && t + 1 < last) new_line(t + 1);
    }
    return end == last;
  }
  std::int32_t num_lines() const { return static_cast<std::int32_t>(line_begin.size()); }
  // The tokens of the lines first to last, half-open.
  std::pair<std::int32_t, std::int32_t> tokens_of(std::int32_t first, std::int32_t last) const {
    const auto end = last < num_lines() ? line_begin[static_cast<std::size_t>(last)]
                                        : static_cast<std::int32_t>(x.size());
    return {line_begin[static_cast<std::size_t>(first)], end};
  }

 private:
  void new_line(std::size_t token) {
    line_begin.push_back(static_cast<std::int32_t>(token));
    at_ = 0;
  }
  float at_ = 0;
};

class TokenStripPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    const Show show = show_now(context, kView);
    const std::vector<Slot> slots = show == Show::One
                                        ? std::vector{context.workspace.selection().shown}
                                        : std::vector{Slot::A, Slot::B};
    std::vector<Map> maps;
    std::vector<Strip> strips;
    for (const Slot slot : slots) {
      const auto i = static_cast<std::size_t>(slot);
      const KvMapQuestion question{context.workspace.place(), context.workspace.method(slot)};
      maps.push_back(maps_[i].ask(context.workspace, question));
      strips.push_back(
          strip_of(context.workspace.place(), maps.back(),
                   verdicts_[i].ask(context.workspace,
                                    SelectedVsTrueQuestion{question.place, question.method})));
    }
    head_.begin();
    heads_ui(context, maps);
    for (const Map& map : maps)
      if (map.state == state::ResultState::Error) {
        failure_ui(context, map.error);
        return;
      }
    if (std::any_of(maps.begin(), maps.end(), [](const Map& map) { return map.stale; }))
      widgets::stale_ui(context.palette);
    if (!context.figure) search_ui(context);
    legend(context, strips, show);
    ImGui::Dummy({0, widgets::grid(0.5F)});
    head_.end(fmt::format("{}|{}|{}", maps.front().question.place.cell_key(),
                          context.workspace.method(Slot::A).key(),
                          context.workspace.method(Slot::B).key()));
    text_window_ui(context, strips, show == Show::Difference);
  }
  void start_search() override { start_search_ = true; }

 private:
  // The text of the place, and what is known of its keys: all of one cell and one method.
  struct Strip {
    Place place;
    const KvMapQuestion::Answer* map = nullptr;
    const SelectedVsTrueQuestion::Answer* verdicts = nullptr;
    bool stale = false;  // the answers are of an older place or method
  };

  static Strip strip_of(const Place& place, const Map& map,
                        const state::Result<SelectedVsTrueQuestion>& verdicts) {
    Strip strip{place};
    if (!map || map.question.place.trace != place.trace) return strip;
    strip.place = map.question.place;
    strip.map = map.answer.get();
    strip.stale = map.stale;
    if (verdicts && verdicts.question.place.cell_key() == strip.place.cell_key() &&
        verdicts.question.method == map.question.method)
      strip.verdicts = verdicts.answer.get();
    return strip;
  }

  static void heads_ui(DrawContext& context, const std::vector<Map>& maps) {
    if (maps.size() == 1) {
      show_ui(context, kView);
      head_ui(context, maps.front(), context.workspace.selection().shown);
      return;
    }
    const auto facts = [](const Map& map) {
      return map ? map->facts : state::facts_of(map.question.place, map.question.method);
    };
    const Place& place = maps[0].question.place;
    widgets::figure_head_ui(context.palette, context.figure, "Token strip", "",
                            place_caption(place), {});
    show_ui(context, kView);
    both_chips_ui(context, place, facts(maps[0]), facts(maps[1]));
  }

  static void head_ui(DrawContext& context, const Map& map, Slot slot) {
    const Place& place = map.question.place;
    if (map) {
      method_head_ui(context, "Token strip", place, map->facts, slot);
      method_note_ui(context, place, map->facts);
    } else {
      method_head_ui(context, "Token strip", place, state::facts_of(place, map.question.method),
                     slot);
    }
  }

  void search_ui(DrawContext& context) {
    ImGui::SetNextItemWidth(std::min(widgets::em(14), ImGui::GetContentRegionAvail().x));
    if (std::exchange(start_search_, false)) ImGui::SetKeyboardFocusHere();
    if (ImGui::InputTextWithHint("##search", "Search the text (Ctrl+F)", &search_,
                                 ImGuiInputTextFlags_EnterReturnsTrue)) {
      jump_ = 1;
      ImGui::SetKeyboardFocusHere(-1);
    }
    const TextSearchQuestion question{context.workspace.place(), search_};
    const std::string key = question.key();
    if (key != search_key_) match_ = -1;
    search_key_ = key;
    if (!search_.empty()) matches_ui(context, question);
    // The legend goes on in this line where there is room.
    ImGui::SameLine(0, widgets::em(1));
    if (ImGui::GetContentRegionAvail().x < widgets::em(30)) ImGui::NewLine();
  }

  void matches_ui(DrawContext& context, const TextSearchQuestion& question) {
    const auto matches = context.workspace.ask(question);
    ImGui::SameLine();
    if (ImGui::ArrowButton("##previous", ImGuiDir_Up)) jump_ = -1;
    ImGui::SameLine();
    if (ImGui::ArrowButton("##next", ImGuiDir_Down)) jump_ = 1;
    ImGui::SameLine();
    if (matches && jump_ != 0) jump(context, *matches);
    std::string text = "searching\u2026";
    if (matches && matches->empty())
      text = "not found";
    else if (matches)
      text = match_ < 0 ? fmt::format("{} found", matches->size())
                        : fmt::format("{} of {}", match_ + 1, matches->size());
    widgets::text_colored(context.palette.muted, text);
  }

  void jump(DrawContext& context, const std::vector<state::TokenRange>& matches) {
    const int by = std::exchange(jump_, 0);
    if (matches.empty()) return;
    const auto n = static_cast<int>(matches.size());
    match_ = match_ < 0 ? (by > 0 ? 0 : n - 1) : (match_ + by + n) % n;
    const state::TokenRange match = matches[static_cast<std::size_t>(match_)];
    context.workspace.cursor.set_keys(match.begin, match.end);
  }

  static void legend(DrawContext& context, const std::vector<Strip>& strips, Show show) {
    const auto& p = context.palette;
    std::vector<widgets::LegendItem> items;
    if (show == Show::Difference)
      items = kept_by_legend(p);
    else
      add_states(p, strips, items);
    if (show == Show::Both) items.push_back({"upper half A, lower half B", p.line});
    items.push_back(legend_of(p, Meaning::Current));
    items.push_back(legend_of(p, Meaning::Watched, "span of the trace"));
    widgets::legend_ui(p, items);
  }

  static void add_states(const widgets::Palette& p, const std::vector<Strip>& strips,
                         std::vector<widgets::LegendItem>& items) {
    items = {legend_of(p, Meaning::Kept), legend_of(p, Meaning::Lost, "lost: true, not kept")};
    const auto add = [&](std::initializer_list<KeyState> states, Meaning meaning) {
      for (const KeyState state : states)
        for (const Strip& strip : strips)
          if (strip.map != nullptr && strip.map->present[static_cast<std::size_t>(state)]) {
            items.push_back(legend_of(p, meaning));
            return;
          }
    };
    add({KeyState::Sink, KeyState::Recent}, Meaning::ByRule);
    add({KeyState::Dense}, Meaning::AllKept);
    add({KeyState::Evicted}, Meaning::Evicted);
  }

  struct Colors {
    ImU32 back = 0, ink = 0;
  };
  static Colors colors_of(const widgets::Palette& p, TokenLook look) {
    switch (look) {
      case TokenLook::Plain:
        return {0, p.muted};
      case TokenLook::Future:
        return {0, p.faint};
      case TokenLook::Kept:
        return {widgets::mix(p.panel, p.hit, 0.42), p.text};
      case TokenLook::Sink:
      case TokenLook::Recent:
        return {widgets::mix(p.panel, p.by_rule, 0.5), p.text};
      case TokenLook::Dense:
        return {widgets::mix(p.panel, p.dense, 0.6), p.text};
      case TokenLook::Current:
        return {widgets::mix(p.panel, p.current, 0.28), p.text};
      case TokenLook::Missed:
        return {widgets::mix(p.panel, p.miss, 0.42), p.text};
      case TokenLook::Evicted:
        return {p.evicted, p.muted};
    }
    return {0, p.muted};
  }

  // What one token is drawn in: of A and B together its upper and its lower half.
  struct Look {
    Colors upper, lower;
  };
  static Look look_of(const widgets::Palette& p, const std::vector<Strip>& strips, bool difference,
                      std::int32_t token) {
    const auto of_one = [&](const Strip& strip) {
      const TokenLook look = state::look_of(strip.map, strip.verdicts, strip.place, token);
      Colors colors = colors_of(p, look);
      // Half a text of evicted tokens must not drown what the other method kept of it.
      if (strips.size() > 1 && look == TokenLook::Evicted)
        colors.back = widgets::mix(p.panel, p.evicted, 0.4);
      return colors;
    };
    if (difference) {
      const Colors colors = colors_of_difference(p, strips, token).value_or(of_one(strips[0]));
      return {colors, colors};
    }
    return {of_one(strips.front()), of_one(strips.back())};
  }

  // Of a token that both could keep, where both are known.
  static std::optional<Colors> colors_of_difference(const widgets::Palette& p,
                                                    const std::vector<Strip>& strips,
                                                    std::int32_t token) {
    const auto chunk = static_cast<std::size_t>(strips[0].place.chunk);
    for (const Strip& strip : strips)
      if (strip.map == nullptr || chunk >= strip.map->map.chunks.size()) return std::nullopt;
    const KeptBy who =
        analysis::kept_by(strips[0].map->map.at(chunk, token), strips[1].map->map.at(chunk, token));
    if (who == KeptBy::NoCandidate) return std::nullopt;
    if (who == KeptBy::Neither) return Colors{0, p.muted};
    return Colors{
        widgets::mix(p.panel, widgets::color_of(p, who), who == KeptBy::Both ? 0.7 : 0.42), p.text};
  }

  // Lays the text out for the room; false while nothing of this trace stands.
  bool lay_out(DrawContext& context, const state::OpenTrace& trace) {
    constexpr std::size_t kTokensPerFrame = 20'000;
    const float room = ImGui::GetContentRegionAvail().x - widgets::em(0.6F);
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

  // A figure ends with a whole line and has nothing to scroll with. The window's bar is always there: one
  // that came later would wrap the text anew, and lose where it was scrolled to.
  void text_window_ui(DrawContext& context, const std::vector<Strip>& strips, bool difference) {
    const widgets::FontScope mono(widgets::Type::Number);
    const float line_height = ImGui::GetTextLineHeight() * 1.42F;
    float height = std::max(ImGui::GetContentRegionAvail().y, widgets::em(4));
    if (context.figure) height = std::max(1.0F, std::floor(height / line_height)) * line_height;
    ImGui::BeginChild(
        "text", {0, height}, ImGuiChildFlags_None,
        context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_AlwaysVerticalScrollbar);
    text_ui(context, strips, difference, line_height);
    ImGui::EndChild();
  }

  void text_ui(DrawContext& context, const std::vector<Strip>& strips, bool difference,
               float line_height) {
    const Place& here = context.workspace.place();
    if (!lay_out(context, *here.trace)) {
      widgets::text_colored(context.palette.muted, "Laying out the text\u2026");
      return;
    }
    follow(context, here, line_height);
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const std::int32_t num_lines = layout_.num_lines();
    const auto first =
        std::clamp(static_cast<std::int32_t>(ImGui::GetScrollY() / line_height), 0, num_lines - 1);
    const auto last = std::min(
        num_lines, first + static_cast<std::int32_t>(ImGui::GetWindowHeight() / line_height) + 2);
    const auto [from, to] = layout_.tokens_of(first, last);
    top_token_ = from;
    for (std::int32_t t = from; t < to; ++t)
      token_ui(context, here, t, look_of(context.palette, strips, difference, t), origin,
               line_height);
    underline_ui(context, here, origin, line_height, from, to);
    ImGui::Dummy({1, line_height * static_cast<float>(num_lines)});
    if (!context.figure && ImGui::IsWindowHovered())
      point_at(context, strips, origin, line_height, from, to);
  }

  void token_ui(DrawContext& context, const Place& here, std::int32_t token, const Look& look,
                ImVec2 origin, float line_height) const {
    const auto i = static_cast<std::size_t>(token);
    const ImVec2 at(origin.x + layout_.x[i],
                    origin.y + line_height * static_cast<float>(layout_.line[i]));
    const ImVec2 end(at.x + layout_.width[i], at.y + line_height - 2);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    if (look.upper.back == look.lower.back) {
      if (look.upper.back != 0)
        widgets::key_rect(draw, context.palette, at, {end.x - 0.5F, end.y}, look.upper.back, 2);
    } else {
      const float middle = std::floor((at.y + end.y) / 2);
      draw->AddRectFilled(at, {end.x - 0.5F, middle}, look.upper.back, 2,
                          ImDrawFlags_RoundCornersTop);
      draw->AddRectFilled({at.x, middle}, {end.x - 0.5F, end.y}, look.lower.back, 2,
                          ImDrawFlags_RoundCornersBottom);
    }
    if (here.has_keys() && token >= here.key_begin && token < here.key_end)
      draw->AddRect({at.x - 1, at.y}, end, context.palette.accent, 2, 0, widgets::em(0.11F));
    const ImU32 ink = look.lower.ink == context.palette.text ? look.lower.ink : look.upper.ink;
    draw->AddText({at.x, at.y + line_height * 0.1F}, ink, here.trace->text[i].c_str());
  }

  void underline_ui(DrawContext& context, const Place& here, ImVec2 origin, float line_height,
                    std::int32_t from, std::int32_t to) const {
    for (const trace::TokenSpan& span : here.info().spans) {
      if (span.name.rfind("role", 0) == 0) continue;
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
  // where the chunk sees it; wrapped anew it stays where it was.
  void follow(DrawContext& context, const Place& here, float line_height) {
    const bool new_text = followed_.trace != here.trace;
    const bool new_keys = here.has_keys() && (here.key_begin != followed_.key_begin ||
                                              here.key_end != followed_.key_end);
    const trace::ChunkInfo& chunk = here.chunk_info();
    const auto span = state::watched_span(here);
    if ((new_text || new_keys) && span && (here.has_keys() || span->begin < chunk.end()))
      scroll_to(span->begin, line_height, 0.35F);
    else if (new_text || here.chunk != followed_.chunk)
      scroll_to(chunk.begin, line_height, context.figure ? 0.0F : 0.35F);
    else if (followed_layout_ != layout_.key)
      scroll_to(top_token_, line_height, 0);
    followed_ = here;
    followed_layout_ = layout_.key;
  }

  // The token's line comes to this share of the height, unless it is in view.
  void scroll_to(std::int32_t token, float line_height, float share) const {
    if (token < 0 || token >= static_cast<std::int32_t>(layout_.line.size())) return;
    const float height = ImGui::GetWindowHeight();
    const float y = line_height * static_cast<float>(layout_.line[static_cast<std::size_t>(token)]);
    if (y >= ImGui::GetScrollY() && y + line_height < ImGui::GetScrollY() + height) return;
    ImGui::SetScrollY(std::max(0.0F, std::floor((y - height * share) / line_height) * line_height));
  }

  void point_at(DrawContext& context, const std::vector<Strip>& strips, ImVec2 origin,
                float line_height, std::int32_t from, std::int32_t to) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto line = static_cast<std::int32_t>((mouse.y - origin.y) / line_height);
    for (std::int32_t t = from; t < to; ++t) {
      const auto i = static_cast<std::size_t>(t);
      if (layout_.line[i] != line || mouse.x < origin.x + layout_.x[i] ||
          mouse.x >= origin.x + layout_.x[i] + layout_.width[i])
        continue;
      if (!strips.front().stale) select(context, t);
      ImGui::SetTooltip("%s\n\nclick or drag: follow these keys; double click: go to the chunk",
                        words_of(strips, t).c_str());
      return;
    }
    if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) drag_from_ = -1;
  }

  void select(DrawContext& context, std::int32_t token) {
    state::Cursor& cursor = context.workspace.cursor;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) drag_from_ = token;
    if (ImGui::IsMouseDown(ImGuiMouseButton_Left) && drag_from_ >= 0)
      cursor.set_keys(std::min(drag_from_, token), std::max(drag_from_, token) + 1);
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
      cursor.set_chunk(cursor.place().info().chunk_of_token(token));
  }

  static std::string words_of(const std::vector<Strip>& strips, std::int32_t token) {
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

  static std::string fate_of(const Strip& strip, std::int32_t token, const std::string& who) {
    const auto i = static_cast<std::size_t>(token);
    std::string text;
    if (strip.verdicts != nullptr && i < strip.verdicts->cell.verdict.size() &&
        token < strip.place.chunk_info().begin)
      text += fmt::format("\n{}{}", who, state::label_of(strip.verdicts->cell.verdict[i]));
    if (strip.map != nullptr)
      if (const auto death = strip.map->map.death_of(token))
        text += fmt::format("\n{}evicted after {}", who, chunk_name(strip.place.info(), *death));
    return text;
  }

  std::array<state::LastAnswer<KvMapQuestion>, 2> maps_;  // of A and B
  std::array<state::LastAnswer<SelectedVsTrueQuestion>, 2> verdicts_;
  SteadyHead head_;
  TextLayout layout_, next_layout_;
  Place followed_;               // scrolled for
  std::string followed_layout_;  // the same
  std::int32_t top_token_ = 0;   // first in view
  std::string search_, search_key_;
  bool start_search_ = false;
  int jump_ = 0;  // to the next (1) or the previous (-1) match, when they are known
  int match_ = -1;
  std::int32_t drag_from_ = -1;
};

}  // namespace

std::unique_ptr<Panel> make_token_strip_panel() { return std::make_unique<TokenStripPanel>(); }

}  // namespace kvloupe::panels
