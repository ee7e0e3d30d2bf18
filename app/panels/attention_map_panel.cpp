// attention_map: the attention of one query head. Above the whole map, reduced by maximum; below
// the rows of the current chunk, exact, with what A, B or both kept and missed between the two. Or all of
// that of two traces, side by side.
#include "app/panels/attention_picture.h"
#include "app/panels/linked_ranges.h"
#include "app/panels/show_control.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using state::Place;
using state::Show;
using state::Slot;
using Kept = AttentionPicture::Kept;
using Pair = AttentionPicture::Pair;

constexpr const char* kView = "attention_map";

class AttentionMapPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    shows_ = show_now(context, kView);
    shows_ == Show::Traces ? traces_ui(context) : one_ui(context);
  }

 private:
  using Methods = std::vector<std::pair<std::size_t, state::MethodChoice>>;

  void one_ui(DrawContext& context) {
    state::Workspace& workspace = context.workspace;
    AttentionPicture& picture = pictures_[0];
    Methods methods;
    for (const Slot slot : shows_ == Show::One ? std::vector{workspace.selection().shown}
                                               : std::vector{Slot::A, Slot::B})
      methods.emplace_back(static_cast<std::size_t>(slot), workspace.method(slot));
    picture.ask(workspace, workspace.place(), methods);
    const std::vector<Kept>& kept = picture.kept();
    const Place& place = picture.place();
    head_.begin();
    head_ui(context, place, kept);
    if (picture.is_stale()) widgets::stale_ui(context.palette);
    if (!ready_ui(context, picture.strip(), kDoing)) return;
    if (kept.size() == 1 && kept[0].verdicts)
      method_note_ui(context, place, kept[0].verdicts->facts);
    broken_ui(context, picture.strip()->num_broken, picture.num_broken());
    const std::string finding = span_finding(place, picture.strip());
    if (!finding.empty()) headline_ui(context, finding + kept_words(place, kept));
    scale_ui(context, place, shows_ == Show::Difference);
    head_.end(fmt::format("{}|{}|{}", place.cell_key(), workspace.method(Slot::A).key(),
                          workspace.method(Slot::B).key()));
    ImGui::Dummy({0, widgets::em(0.9F)});
    picture.draw(context, ImGui::GetContentRegionAvail(), shows_, std::nullopt,
                 [&](const Pair& pair) { choose(context, place, pair); });
  }

  // The method shown, here and in the other trace: keys, queries and the mouse are matched by the tokens.
  void traces_ui(DrawContext& context) {
    state::Workspace& workspace = context.workspace;
    const Slot slot = workspace.selection().shown;
    const state::OtherPlace other =
        state::other_place(workspace, workspace.method(slot), state::Alike::Heads);
    pictures_[0].ask(workspace, workspace.place(), {{0, workspace.method(slot)}});
    if (other) pictures_[1].ask(workspace, other.place, {{0, other.method}});
    widgets::figure_head_ui(context.palette, context.figure, "Attention map of two traces", "",
                            place_caption(workspace.place()), {});
    show_ui(context, kView);
    if (!context.figure) ImGui::NewLine();
    if (!other_ready_ui(context, other)) return;
    if (!other.note.empty()) widgets::text_wrapped(context.palette.muted, other.note);
    scale_ui(context, workspace.place(), false);
    const state::AlignedTraces& aligned = *other.aligned;
    const bool current =
        is_current(pictures_[0], workspace.place()) && is_current(pictures_[1], other.place);
    if (current) {
      for (AttentionPicture& picture : pictures_) picture.fit();
      keys_.follow(keys_of(aligned), pictures_[0].keys(), pictures_[1].keys());
      queries_.follow(keys_of(aligned), pictures_[0].queries(), pictures_[1].queries());
    }
    const auto pointed = std::exchange(pointing_, {});
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(1);
    const bool beside = room.x > widgets::em(44) && room.x > room.y;
    const ImVec2 part(beside ? (room.x - gap) / 2 : room.x, beside ? room.y : (room.y - gap) / 2);
    for (std::size_t i = 0; i < pictures_.size(); ++i) {
      if (i > 0 && beside) ImGui::SameLine(0, gap);
      ImGui::BeginChild(i == 0 ? "here" : "there", part, ImGuiChildFlags_None,
                        context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_None);
      const auto of_other = pointed[1 - i];
      const std::optional<Pair> hit = picture_ui(
          context, i, slot, current && of_other ? moved(aligned, i == 1, *of_other) : std::nullopt,
          [&](const Pair& pair) {
            if (!current) return;
            const auto here = i == 0 ? std::optional(pair) : moved(aligned, false, pair);
            if (here) choose(context, workspace.place(), *here);
          });
      if (hit) pointing_[i] = hit;
      ImGui::EndChild();
    }
  }

  std::optional<Pair> picture_ui(DrawContext& context, std::size_t index, Slot slot,
                                 const std::optional<Pair>& pointed,
                                 const AttentionPicture::Choose& choose) {
    AttentionPicture& picture = pictures_[index];
    const Place& place = picture.place();
    std::vector<widgets::Chip> chips = trace_chip(context, place);
    const state::MethodFacts& facts = picture.kept().front().facts;
    if (!facts.choice.empty())
      for (widgets::Chip& chip : method_chips(context, place, facts, slot))
        chips.push_back(std::move(chip));
    widgets::figure_head_ui(context.palette, context.figure, "", "", "", chips);
    if (picture.is_stale()) widgets::stale_ui(context.palette);
    if (!ready_ui(context, picture.strip(), kDoing)) return std::nullopt;
    broken_ui(context, picture.strip()->num_broken, picture.num_broken());
    ImGui::Dummy({0, widgets::em(0.9F)});
    return picture.draw(context, ImGui::GetContentRegionAvail(), Show::One, pointed, choose);
  }

  // What is drawn is of this place.
  static bool is_current(const AttentionPicture& picture, const Place& place) {
    return picture.strip() && !picture.strip().stale && picture.place().trace == place.trace;
  }

  // A pair of the one trace in the other; nothing where the key is not there.
  static std::optional<Pair> moved(const state::AlignedTraces& aligned, bool to_b,
                                   const Pair& pair) {
    const replay::KeyPairs& keys = aligned.keys();
    const Pair there = to_b ? Pair{keys.in_b(pair.query), keys.in_b(pair.key)}
                            : Pair{keys.in_a(pair.query), keys.in_a(pair.key)};
    return there.key >= 0 ? std::optional(there) : std::nullopt;
  }

  static void head_ui(DrawContext& context, const Place& place, const std::vector<Kept>& kept) {
    auto chips = trace_chips(context, place);
    const state::MethodFacts& facts = kept.front().facts;
    if (kept.size() == 1 && !facts.choice.empty()) {
      // The method's chips say the precision, too.
      std::erase_if(chips,
                    [](const widgets::Chip& chip) { return chip.text.starts_with("stored"); });
      for (widgets::Chip& chip :
           method_chips(context, place, facts, state::kSlots[kept.front().index]))
        chips.push_back(std::move(chip));
    }
    const bool both = kept.size() == 2;
    if (both && !context.figure)  // on the line of the forms, with what the bar above does not say
      for (std::size_t i = 0; i < 2; ++i)
        for (widgets::Chip& chip : method_chips(context, place, kept[i].facts, state::kSlots[i]))
          if (chip.color != 0) chips.push_back(std::move(chip));
    show_ui(context, kView);
    widgets::figure_head_ui(context.palette, context.figure, "Attention map", "",
                            place_caption(place), chips);
    if (both && context.figure)
      both_chips_ui(context, place, kept[0].facts, kept[1].facts);
    else if (both)
      same_method_ui(context, kept[0].facts.choice, kept[1].facts.choice);
  }

  // How much of their attention the question's queries, or else the chunk's, give the watched keys.
  std::string span_finding(const Place& place, const AttentionPicture::Strip& strip) {
    const auto span = state::watched_keys(place);
    if (!span || !strip->rows) return "";
    const std::string key = fmt::format("{}|{}", strip.key, span->keys.text());
    if (key == found_for_) return found_;
    found_for_ = key;
    const trace::ChunkInfo& chunk = place.chunk_info();
    std::vector<std::int32_t> rows;
    for (std::int32_t row = 0; row < chunk.length; ++row)
      if (state::in_question(place, chunk.begin + row)) rows.push_back(row);
    const bool asks = !rows.empty();
    if (!asks)
      for (std::int32_t row = 0; row < chunk.length; ++row) rows.push_back(row);
    double sum = 0;
    for (const std::int32_t row : rows)
      for (const std::int32_t watched : span->keys.positions_in(0, chunk.begin + row + 1))
        sum += strip->rows->at(row, watched);
    found_.clear();
    if (std::isnan(sum)) return found_;  // the line of broken values says it
    found_ = fmt::format(
        "In query head {} the {} {} \u201C{}\u201D {} of {} attention.", place.q_head,
        asks ? "question's" : "chunk's",
        rows.size() == 1 ? "query gives" : fmt::format("{} queries give", rows.size()),
        state::readable_name(span->name), share_text(sum / static_cast<double>(rows.size())),
        rows.size() == 1 ? "its" : "their");
    return found_;
  }

  // " quoka keeps 19 of 22." of what is watched, by each method that is drawn.
  static std::string kept_words(const Place& place, const std::vector<Kept>& kept) {
    std::string text;
    for (const Kept& one : kept) {
      if (!one.verdicts || one.verdicts.question.place.cell_key() != place.cell_key()) return "";
      const auto of_span = state::kept_of_span(*one.verdicts, place);
      if (!of_span) return "";
      const std::string id = one.facts.choice.id();
      text += text.empty() ? fmt::format(" {} keeps {} of {}", id, of_span->kept, of_span->total)
                           : fmt::format(", {} {}", id, of_span->kept);
    }
    return text.empty() ? "" : text + ".";
  }

  static void broken_ui(DrawContext& context, std::int64_t of_chunk, std::int64_t of_all) {
    if (of_chunk == 0 && of_all == 0) return;
    widgets::text_wrapped(
        context.palette.error,
        fmt::format("{} in this chunk and {} in the whole map: the stored Q or K "
                    "hold a NaN or an infinity. They are drawn in this colour.",
                    of_chunk == 1 ? "1 value is not a number"
                                  : format_count(of_chunk) + " values are not numbers",
                    of_all == 0 ? "more may be" : format_count(of_all)));
  }

  static void scale_ui(DrawContext& context, const Place& place, bool difference) {
    const trace::ChunkInfo& chunk = place.chunk_info();
    bool asks = false;
    for (std::int32_t query = chunk.begin; query < chunk.end(); ++query)
      asks |= state::in_question(place, query);
    color_range_ui(context, attention_range(context.workspace));
    beside_ui(widgets::em(1.5F), widgets::em(9));
    const bool decode = chunk.phase == trace::Phase::Decode;
    std::vector<widgets::LegendItem> items{{"hit: kept and true", context.palette.hit},
                                           {"miss: true, not kept", context.palette.miss},
                                           {"waste: kept, not true", context.palette.waste}};
    if (difference) items = kept_by_legend(context.palette);
    items.push_back({decode ? "current step" : "current chunk", context.palette.current});
    if (asks) items.push_back({"bar at the left: rows of the question", context.palette.muted});
    if (const std::size_t count = place.looked_at().size(); count > 0)
      items.push_back(
          {count == 1 ? "bar: selected query" : "bar: selected queries", context.palette.accent});
    widgets::legend_ui(context.palette, items);
    if (context.figure) return;
    beside_ui(widgets::em(1.5F), widgets::em(26));  // all three in one line
    option_ui(context, kView, "color_scale", "colours", widgets::em(5));
    option_beside_ui(context, kView, "color_from", "from", widgets::em(6));
    option_beside_ui(context, kView, "color_to", "to", widgets::em(5));
  }

  static void choose(DrawContext& context, const Place& place, const Pair& pair) {
    context.workspace.cursor.change("", [&](state::Selection& s) {
      if (pair.query >= 0) {
        s.place.chunk = place.info().chunk_of_token(pair.query);
        s.place.query = pair.query;
      }
      s.place.keys = {pair.key, pair.key + 1};
    });
  }

  static constexpr const char* kDoing = "Recomputing the chunk's attention from Q and K";

  std::array<AttentionPicture, 2> pictures_;  // of this trace and of the other
  LinkedRanges keys_, queries_;
  std::array<std::optional<Pair>, 2> pointing_;  // at what the mouse points in each
  Show shows_ = Show::One;                       // in this frame
  SteadyHead head_;
  std::string found_, found_for_;
};

}  // namespace

std::unique_ptr<Panel> make_attention_map_panel() { return std::make_unique<AttentionMapPanel>(); }

}  // namespace kvloupe::panels
