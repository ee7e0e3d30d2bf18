// token_strip: the text itself, each token coloured by what happened to its key in the current
// chunk: by A, by B, by both, or in two traces.
#include "app/panels/show_control.h"
#include "app/panels/token_text.h"
#include "app/widgets/key_names.h"
#include "app/widgets/meanings.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::KeyState;
using state::KvMapQuestion;
using state::Place;
using state::SelectedVsTrueQuestion;
using state::Show;
using state::Side;
using state::Slot;
using state::TextSearchQuestion;
using widgets::legend_of;
using widgets::Meaning;
using Map = state::Result<KvMapQuestion>;

constexpr const char* kView = "token_strip";

class TokenStripPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Show show = show_now(context, kView);
    show == Show::Traces ? traces_ui(context) : one_ui(context, show);
  }
  void start_search() override { start_search_ = true; }

 private:
  void one_ui(DrawContext& context, Show show) {
    const state::Workspace& workspace = context.workspace;
    const std::vector<Slot> slots = show == Show::One ? std::vector{workspace.selection().shown}
                                                      : std::vector{Slot::A, Slot::B};
    std::vector<Map> maps;
    std::vector<Strip> strips;
    for (const Slot slot : slots)
      ask(context, static_cast<std::size_t>(slot), workspace.place(), workspace.method(slot), maps,
          strips);
    head_.begin();
    heads_ui(context, maps);
    if (!known_ui(context, maps)) return;
    if (!context.figure) search_ui(context);
    finding_ui(context, maps);
    // In a low panel the long one of two methods would leave no room for the text.
    const bool legend_below =
        show == Show::Both && !context.figure && ImGui::GetWindowHeight() < widgets::em(30);
    if (!legend_below) legend(context, strips, show);
    ImGui::Dummy({0, widgets::grid(0.5F)});
    head_.end(fmt::format("{}|{}|{}", maps.front().question.place.cell_key(),
                          workspace.method(Slot::A).key(), workspace.method(Slot::B).key()));
    const float height = std::max(ImGui::GetContentRegionAvail().y, widgets::em(4));
    const Place here = workspace.place();
    const TokenText::Mouse mouse =
        texts_[0].draw(context, {"text", {0, height}, here, strips, show == Show::Difference});
    if (legend_below) legend(context, strips, show);
    state::Cursor& cursor = context.workspace.cursor;
    if (mouse.begin >= 0) cursor.set_keys(mouse.begin, mouse.end);
    if (mouse.go) cursor.set_chunk(here.info().chunk_of_token(mouse.over));
  }

  // The texts of this trace and of the other, beside each other: scrolled together, and the token under the
  // mouse marked in both, by the tokens that are the same.
  void traces_ui(DrawContext& context) {
    state::Workspace& workspace = context.workspace;
    const Slot slot = workspace.selection().shown;
    const state::OtherPlace other =
        state::other_place(workspace, workspace.method(slot), state::Alike::Heads);
    const Place here = workspace.place();
    std::vector<Map> maps;
    std::vector<Strip> strips;
    ask(context, 0, here, workspace.method(slot), maps, strips);
    if (other) ask(context, 1, other.place, other.method, maps, strips);
    widgets::figure_head_ui(context.palette, context.figure, "Token strip of two traces", "",
                            place_caption(here), {});
    show_ui(context, kView);
    if (!context.figure) search_ui(context);
    legend(context, strips, Show::Traces);
    if (!other_ready_ui(context, other)) return;
    if (!other.note.empty()) widgets::text_wrapped(context.palette.muted, other.note);
    if (!known_ui(context, maps)) return;
    const state::AlignedTraces& aligned = *other.aligned;
    scroll_together(aligned);
    const std::int32_t over = over_[0] >= 0 || over_[1] < 0 ? -1 : partner(aligned, 1, over_[1]);
    const std::array<std::int32_t, 2> pointed{over,
                                              over_[0] >= 0 ? partner(aligned, 0, over_[0]) : -1};
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(1);
    const bool beside = room.x > widgets::em(36);
    const ImVec2 part(beside ? (room.x - gap) / 2 : room.x,
                      beside ? room.y : std::max((room.y - gap) / 2, widgets::em(7)));
    for (std::size_t i = 0; i < 2; ++i) {
      if (i > 0 && beside) ImGui::SameLine(0, gap);
      ImGui::BeginChild(i == 0 ? "here" : "there", part, ImGuiChildFlags_None,
                        ImGuiWindowFlags_NoScrollbar);
      const Place& place = i == 0 ? here : other.place;
      heading_ui(context, state::readable_name(place.trace->name),
                 fmt::format("{}, {}", chunk_name(place.info(), place.chunk),
                             maps[i].question.method.id()));
      const auto alone = [&](std::int32_t token) { return partner(aligned, i, token) < 0; };
      const TokenText::Mouse mouse = texts_[i].draw(context, {"text",
                                                              {0, ImGui::GetContentRegionAvail().y},
                                                              place,
                                                              {strips[i]},
                                                              false,
                                                              pointed[i],
                                                              alone});
      over_[i] = mouse.over;
      choose(context, aligned, i, mouse);
      ImGui::EndChild();
    }
  }

  void choose(DrawContext& context, const state::AlignedTraces& aligned, std::size_t index,
              const TokenText::Mouse& mouse) {
    state::Cursor& cursor = context.workspace.cursor;
    trace::KeySet keys(mouse.begin, mouse.end);
    std::int32_t over = mouse.over;
    if (index == 1) {
      std::vector<std::int32_t> partners;  // -1 of what this prompt lacks
      for (const std::int32_t token : keys.positions_in(0, keys.bound()))
        partners.push_back(partner(aligned, 1, token));
      keys = trace::KeySet::of(partners);
      over = over >= 0 ? partner(aligned, 1, over) : -1;
    }
    if (!keys.empty()) cursor.set_keys(keys);
    if (mouse.go && over >= 0) cursor.set_chunk(cursor.place().info().chunk_of_token(over));
  }

  // In the other trace, of a token of the one with this index.
  static std::int32_t partner(const state::AlignedTraces& aligned, std::size_t index,
                              std::int32_t token) {
    return index == 0 ? aligned.keys().in_b(token) : aligned.keys().in_a(token);
  }

  // The text that was scrolled leads; the other needs a frame or two to come after.
  void scroll_together(const state::AlignedTraces& aligned) {
    constexpr int kFrames = 3;
    for (std::size_t i = 0; i < 2; ++i) {
      if (following_[i] > 0) {
        --following_[i];
        top_[i] = texts_[i].top();
      }
      if (texts_[i].top() == top_[i]) continue;
      top_[i] = texts_[i].top();
      const std::int32_t token = top_[i].token;
      const double at =
          i == 0 ? aligned.in_b(token, Side::Begin) : aligned.in_a(token, Side::Begin);
      texts_[1 - i].bring_to_top({static_cast<std::int32_t>(at), top_[i].cut});
      following_[1 - i] = kFrames;
      return;
    }
  }

  void ask(DrawContext& context, std::size_t index, const Place& place,
           const state::MethodChoice& method, std::vector<Map>& maps, std::vector<Strip>& strips) {
    maps.push_back(maps_[index].ask(context.workspace, KvMapQuestion{place, method}));
    strips.push_back(
        strip_of(place, maps.back(),
                 verdicts_[index].ask(context.workspace, SelectedVsTrueQuestion{place, method})));
  }

  // False where something failed, which is told.
  static bool known_ui(DrawContext& context, const std::vector<Map>& maps) {
    for (const Map& map : maps)
      if (map.state == state::ResultState::Error) {
        failure_ui(context, map.error);
        return false;
      } else if (const Place& at = map.question.place;
                 map && !map->map.knows(static_cast<std::size_t>(at.chunk))) {
        failure_ui(context, trace::lacks_queries(at.info(), at.chunk).what());
        return false;
      }
    if (std::any_of(maps.begin(), maps.end(), [](const Map& map) { return map.stale; }))
      widgets::stale_ui(context.palette);
    return true;
  }

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

  static void finding_ui(DrawContext& context, const std::vector<Map>& maps) {
    std::vector<state::KeptBy> each;
    for (const Map& map : maps) {
      const auto kept =
          map ? state::kept_of_span(*map, map.question.place) : std::optional<state::KeptOfSpan>();
      if (!kept) return;
      each.push_back({std::string(1, state::letter_of(state::kSlots[each.size()])), *kept});
    }
    headline_ui(
        context,
        (each.size() == 1 ? state::words_of(each.front().kept) : state::words_of(each)) + ".");
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

  // In the line of what is shown, where there is room.
  void search_ui(DrawContext& context) {
    beside_ui(widgets::em(1.2F), widgets::em(search_.empty() ? 14 : 25));  // with what is found
    ImGui::SetNextItemWidth(std::min(widgets::em(14), ImGui::GetContentRegionAvail().x));
    if (std::exchange(start_search_, false)) ImGui::SetKeyboardFocusHere();
    if (ImGui::InputTextWithHint("##search", widgets::with_key("Search the text", "find").c_str(),
                                 &search_, ImGuiInputTextFlags_EnterReturnsTrue)) {
      jump_ = 1;
      ImGui::SetKeyboardFocusHere(-1);
    }
    const TextSearchQuestion question{context.workspace.place(), search_};
    const std::string key = question.key();
    if (key != search_key_) match_ = -1;
    search_key_ = key;
    if (!search_.empty()) matches_ui(context, question);
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
      add_states(p, strips, show == Show::Both, items);
    if (show == Show::Both)
      items.push_back({"A above, B below", p.muted, widgets::LegendItem::Shape::Edges});
    if (show == Show::Traces)
      items.push_back({"in one prompt alone", p.warning, widgets::LegendItem::Shape::Line});
    items.push_back(legend_of(p, Meaning::Current));
    items.push_back(legend_of(p, Meaning::Watched, "span of the trace"));
    widgets::legend_ui(p, items);
  }

  // Two methods' bars show of the evicted what was lost by it.
  static void add_states(const widgets::Palette& p, const std::vector<Strip>& strips, bool both,
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
    if (std::ranges::any_of(strips, [](const Strip& strip) {
          return strip.map != nullptr && strip.map->facts.at(strip.place.chunk).dense;
        }))
      add({KeyState::Dense}, Meaning::AllKept);
    add({KeyState::Evicted}, Meaning::Evicted);
    if (items.back().color != p.evicted) return;
    if (both) items.back().text = "evicted, where watched";
    items.insert(items.begin() + 2,
                 {"lost: true, evicted", p.miss, widgets::LegendItem::Shape::Evicted});
  }

  std::array<state::LastAnswer<KvMapQuestion>, 2> maps_;  // of A and B, or of two traces
  std::array<state::LastAnswer<SelectedVsTrueQuestion>, 2> verdicts_;
  std::array<TokenText, 2> texts_;            // of this trace and of the other
  std::array<std::int32_t, 2> over_{-1, -1};  // the token under the mouse in each
  std::array<TokenText::Top, 2> top_;         // of each, as far as both agree
  std::array<int, 2> following_{0, 0};        // frames in which it comes after the other
  SteadyHead head_;
  std::string search_, search_key_;
  bool start_search_ = false;
  int jump_ = 0;  // to the next (1) or the previous (-1) match, when they are known
  int match_ = -1;
};

}  // namespace

std::unique_ptr<Panel> make_token_strip_panel() { return std::make_unique<TokenStripPanel>(); }

}  // namespace kvloupe::panels
