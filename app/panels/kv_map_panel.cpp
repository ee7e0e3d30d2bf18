// kv_map: which keys a row kept, chunk by chunk. Rows are chunks, columns keys. One method, A above B,
// their difference, up to six, or one method in two traces: on one axis, which belongs to the place.
#include "app/panels/kv_difference_map.h"
#include "app/panels/kv_map_axes.h"
#include "app/panels/kv_map_bars.h"
#include "app/panels/kv_map_picture.h"
#include "app/panels/show_control.h"
#include "app/state/labels.h"
#include "app/state/token_text.h"
#include "app/widgets/meanings.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::KeyState;
using state::KvMapQuestion;
using state::Place;
using state::RecallQuestion;
using state::Show;
using state::Slot;
using Map = state::Result<KvMapQuestion>;
using Recall = state::Result<RecallQuestion>;

constexpr const char* kView = "kv_map";
constexpr float kLeastEm = 8, kLeastWidthEm = 11;  // of one of several maps
constexpr std::array<KeyState, 8> kLegendOrder{
    KeyState::Kept,    KeyState::Sink,    KeyState::Recent,  KeyState::Dense,
    KeyState::Current, KeyState::Dropped, KeyState::Evicted, KeyState::Hidden};

class KvMapPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    axes_.begin_frame();
    other_axes_.begin_frame();
    switch (show_now(context, kView)) {
      case Show::One: one_ui(context); break;
      case Show::Both: both_ui(context); break;
      case Show::Difference: difference_.draw(context, kView, axes_); break;
      case Show::Traces: traces_ui(context); break;
      case Show::Several: several_ui(context); break;
    }
  }

 private:
  // What is drawn of one method.
  struct Picture {
    state::LastAnswer<KvMapQuestion> last_map;
    state::LastAnswer<RecallQuestion> last_recall;
    Map map;  // of this frame
    Recall recall;
    widgets::MapTexture texture;
  };

  Picture& ask(DrawContext& context, std::size_t index, const state::MethodChoice& method) {
    return ask(context, index, context.workspace.place(), method);
  }
  Picture& ask(DrawContext& context, std::size_t index, const Place& place,
               const state::MethodChoice& method) {
    Picture& picture = pictures_[index];
    picture.map = picture.last_map.ask(context.workspace, KvMapQuestion{place, method});
    if (picture.map)
      picture.recall = picture.last_recall.ask(
          context.workspace,
          RecallQuestion{picture.map.question.place, picture.map.question.method});
    return picture;
  }

  static std::string head_key(const DrawContext& context) {
    const state::Selection& selection = context.workspace.selection();
    return selection.place.cell_key() + "|" + selection.choice(Slot::A).key() + "|" +
           selection.choice(Slot::B).key();
  }

  void one_ui(DrawContext& context) {
    const Slot slot = context.workspace.selection().shown;
    drawn_ = {static_cast<std::size_t>(slot)};
    const Picture& picture = ask(context, drawn_.front(), context.workspace.method(slot));
    head_.begin();
    show_ui(context, kView);
    slot_head_ui(context, picture, slot, "KV map");
    if (!ready_ui(context, picture.map, "Selecting, chunk by chunk")) return;
    finding_ui(context, picture);
    legend(context);
    head_.end(head_key(context));
    ImGui::Dummy({0, widgets::em(0.9F)});
    fit(picture);
    maps_ui(context, drawn_.front(), ImGui::GetContentRegionAvail(), {});
  }

  // Over which the recall is, where that is chosen.
  static state::NumberChunks chunks_of(DrawContext& context, const Place& place) {
    return state::number_chunks(context.workspace.selection().numbers, place,
                                state::NumberScope::Kind::All);
  }

  static const RecallQuestion::Answer* recall_of(const Picture& picture) {
    return picture.recall && !picture.recall.stale ? &*picture.recall : nullptr;
  }

  static void finding_ui(DrawContext& context, const Picture& picture) {
    const Place& place = picture.map.question.place;
    const std::string text =
        state::finding_of(*picture.map, recall_of(picture), chunks_of(context, place), place);
    if (!text.empty()) headline_ui(context, text);
  }

  static void slot_head_ui(DrawContext& context, const Picture& picture, Slot slot,
                           const std::string& title) {
    const Place& place = picture.map.question.place;
    if (!picture.map) {
      method_head_ui(context, title, place, state::facts_of(place, picture.map.question.method),
                     slot);
      return;
    }
    method_head_ui(context, title, place, picture.map->facts, slot);
    method_note_ui(context, place, picture.map->facts);
  }

  void both_ui(DrawContext& context) {
    drawn_ = {0, 1};
    for (const Slot slot : state::kSlots)
      ask(context, static_cast<std::size_t>(slot), context.workspace.method(slot));
    widgets::figure_head_ui(context.palette, context.figure, "KV map", "",
                            place_caption(context.workspace.place()), {});
    show_ui(context, kView);
    legend(context);
    same_method_ui(context, context.workspace.method(Slot::A), context.workspace.method(Slot::B));
    // In a low panel beside each other, rather than below the fold.
    const ImVec2 room = ImGui::GetContentRegionAvail();
    if (!context.figure && room.y < 2 * least_part_height() + KvMapAxes::axis_height() &&
        room.x > 2 * widgets::em(kLeastWidthEm))
      return small_maps_ui(context, 2, 2);
    two_maps_ui(context, false, [&](std::size_t index) {
      slot_head_ui(context, pictures_[index], state::kSlots[index], "");
    });
  }

  // Of one of two maps, with its chips.
  static float least_part_height() {
    return least_plot_height() + 2 * ImGui::GetTextLineHeightWithSpacing();
  }

  // Two maps above each other. With one axis of keys it stands below the lower one.
  template <typename Head>
  void two_maps_ui(DrawContext& context, bool two_axes, const Head& head_of) {
    const float axis = KvMapAxes::axis_height();
    const float room = ImGui::GetContentRegionAvail().y - widgets::em(0.5F);
    // Where there is less room the panel scrolls.
    const float least = least_part_height();
    const float part =
        std::max(context.figure ? 0 : least, std::floor((room - (two_axes ? 2 : 1) * axis) / 2));
    for (std::size_t index = 0; index < 2; ++index) {
      const bool has_axis = two_axes || index == 1;
      const Picture& picture = pictures_[index];
      // On paper each part is as high as its chips and its map.
      const bool grows = context.least_plot > 0;
      // In a low panel too, which scrolls.
      const bool tight = !context.figure && part <= least;
      ImGui::BeginChild(index == 0 ? "map a" : "map b",
                        {0, grows || tight ? 0
                            : has_axis     ? part + axis
                                           : part},
                        grows || tight ? ImGuiChildFlags_AutoResizeY : ImGuiChildFlags_None,
                        ImGuiWindowFlags_NoScrollbar);
      head_of(index);
      if (ready_ui(context, picture.map, "Selecting, chunk by chunk")) {
        finding_ui(context, picture);
        ImGui::Dummy({0, widgets::em(0.7F)});
        fit(picture, axes_of(index));
        ImVec2 left = ImGui::GetContentRegionAvail();
        if (grows) left.y = context.least_plot + (has_axis ? axis : 0);
        if (tight) left.y = least_plot_height() + (has_axis ? axis : 0);
        maps_ui(context, index, left, {.x_axis = has_axis});
      }
      ImGui::EndChild();
    }
  }

  // The method shown, here and in the other trace: keys, chunks and the mouse are matched by the tokens.
  void traces_ui(DrawContext& context) {
    const Slot slot = context.workspace.selection().shown;
    const state::OtherPlace other =
        state::other_place(context.workspace, context.workspace.method(slot), state::Alike::Heads);
    drawn_ = {0};
    ask(context, 0, context.workspace.method(slot));
    if (other) {
      drawn_.push_back(1);
      ask(context, 1, other.place, other.method);
      aligned_ = other.aligned;
    }
    widgets::figure_head_ui(context.palette, context.figure, "KV map of two traces", "",
                            place_caption(context.workspace.place()), {});
    show_ui(context, kView);
    legend(context);
    if (!other_ready_ui(context, other)) return;
    if (!other.note.empty()) widgets::text_wrapped(context.palette.muted, other.note);
    const Map &here = pictures_[0].map, &there = pictures_[1].map;
    if (here && there && !here.stale && !there.stale) {
      fit(pictures_[0], axes_);
      fit(pictures_[1], other_axes_);
      axes_.link(other_axes_, *aligned_, here.question.place, there.question.place);
    }
    two_maps_ui(context, !aligned_->same_prompt(), [&](std::size_t index) {
      const Map& map = pictures_[index].map;
      std::vector<widgets::Chip> chips = trace_chip(context, map.question.place);
      const state::MethodFacts facts =
          map ? map->facts : state::facts_of(map.question.place, map.question.method);
      for (widgets::Chip& chip : method_chips(context, map.question.place, facts, slot))
        chips.push_back(std::move(chip));
      widgets::figure_head_ui(context.palette, context.figure, "", "", "", chips);
    });
    aligned_ = nullptr;
  }

  KvMapAxes& axes_of(std::size_t index) {
    return aligned_ != nullptr && index == 1 ? other_axes_ : axes_;
  }

  // A key and chunk of the map `from` in the map `index`; nothing where the other prompt lacks them.
  std::optional<std::pair<std::size_t, std::int32_t>> moved(std::size_t from, std::size_t index,
                                                            std::size_t chunk,
                                                            std::int32_t key) const {
    if (aligned_ == nullptr || from == index) return std::pair{chunk, key};
    if (pictures_[0].map.stale || pictures_[1].map.stale) return std::nullopt;
    const auto row = static_cast<int>(chunk);
    const int there = index == 1 ? aligned_->chunk_in_b(row) : aligned_->chunk_in_a(row);
    const std::int32_t partner =
        index == 1 ? aligned_->keys().in_b(key) : aligned_->keys().in_a(key);
    if (there < 0 || partner < 0) return std::nullopt;
    return std::pair{static_cast<std::size_t>(there), partner};
  }

  // The key of the map `index` is in that prompt alone.
  bool is_alone(std::size_t index, std::int32_t key) const {
    if (aligned_ == nullptr) return false;
    return (index == 0 ? aligned_->keys().in_b(key) : aligned_->keys().in_a(key)) < 0;
  }

  void several_ui(DrawContext& context) {
    const auto methods = state::several_methods(context.workspace);
    drawn_.clear();
    for (std::size_t i = 0; i < methods.size(); ++i) {
      drawn_.push_back(i);
      ask(context, i, methods[i]);
    }
    widgets::figure_head_ui(context.palette, context.figure, "KV map", "",
                            place_caption(context.workspace.place()), {});
    show_ui(context, kView);
    legend(context);
    small_maps_ui(context, static_cast<int>(methods.size()),
                  methods.size() > 2 && ImGui::GetContentRegionAvail().x > widgets::em(48) ? 2 : 1);
  }

  // The first `count` pictures, each with a line of words; so many beside each other, or more where it is low.
  void small_maps_ui(DrawContext& context, int count, int across) {
    ImGui::Dummy({0, widgets::grid(0.5F)});
    ImGui::BeginChild("maps", {0, 0});
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.6F), axis = KvMapAxes::axis_height();
    const auto height_of = [&](int columns) {
      const auto down = static_cast<float>((count + columns - 1) / columns);
      return std::floor((room.y - axis - gap * down) / down);
    };
    const auto fits = [&](int columns) {
      return room.x > widgets::em(kLeastWidthEm) * static_cast<float>(columns);
    };
    // As wide as they can be; in a low panel narrower, rather than below the fold.
    while (across < count && fits(across + 1) && height_of(across) < widgets::em(kLeastEm))
      ++across;
    const float width =
        (room.x - gap * static_cast<float>(across - 1)) / static_cast<float>(across);
    const float height = std::max(widgets::em(kLeastEm), height_of(across));
    for (int i = 0; i < count; ++i) {
      const bool is_last_row = i + across >= count;
      if (i % across != 0) ImGui::SameLine(0, gap);
      ImGui::BeginChild(fmt::format("map {}", i).c_str(),
                        {width, height + (is_last_row ? axis : 0)}, ImGuiChildFlags_None,
                        ImGuiWindowFlags_NoScrollbar);
      small_map_ui(context, static_cast<std::size_t>(i), is_last_row);
      ImGui::EndChild();
    }
    ImGui::EndChild();
  }

  void small_map_ui(DrawContext& context, std::size_t index, bool x_axis) {
    const Picture& picture = pictures_[index];
    const std::vector<std::string> numbers = numbers_of(context, picture);
    const bool narrow = ImGui::GetContentRegionAvail().x < widgets::em(16);
    method_line_ui(context, index, picture.map.question.method,
                   narrow ? std::vector<std::string>{} : numbers);
    if (narrow) {
      const widgets::FontScope small(widgets::Type::Caption);
      widgets::text_colored(context.palette.muted,
                            as_many_as_fit(numbers, ImGui::GetContentRegionAvail().x));
    }
    if (!ready_ui(context, picture.map, "Selecting, chunk by chunk")) return;
    ImGui::Dummy({0, widgets::em(0.7F)});
    fit(picture);
    const TickRoom for_last_number;
    maps_ui(context, index, ImGui::GetContentRegionAvail(), {.x_axis = x_axis, .small = true});
  }

  // "needle: 19/22", "recall 0.931" of the chunk in the bar above, the recall of the chunks that numbers are
  // over, where those are others, "0.693 from the question on", and "256 kept".
  static std::vector<std::string> numbers_of(DrawContext& context, const Picture& picture) {
    const Place& place = picture.map.question.place;
    const auto chunk = static_cast<std::size_t>(place.chunk);
    if (!picture.map || !picture.map->map.knows(chunk)) return {};
    std::vector<std::string> numbers;
    if (const auto span = state::kept_of_span(*picture.map, place))
      numbers.push_back(fmt::format("{}: {}/{}", span->span, span->kept, span->total));
    if (const RecallQuestion::Answer* recall = recall_of(picture);
        recall != nullptr && chunk < recall->size()) {
      numbers.push_back(fmt::format("recall {:.3f}", (*recall)[chunk]));
      const state::NumberChunks chunks = chunks_of(context, place);
      const bool others =
          chunks.chosen && !(chunks.range && chunks.range->is_one() && chunks.has(place.chunk));
      if (const auto mean =
              others ? state::mean_recall(*recall, picture.map->facts, chunks, place.info())
                     : std::nullopt)
        numbers.push_back(fmt::format("{:.3f} {}", *mean, state::brief_of(chunks, place.info())));
    }
    numbers.push_back(format_count(picture.map->map.kept[chunk]) + " kept");
    return numbers;
  }

  void fit(const Picture& picture) { fit(picture, axes_); }
  static void fit(const Picture& picture, KvMapAxes& axes) {
    axes.fit(picture.map->map.chunks.size(), picture.map->map.num_tokens,
             picture.map.question.place);
  }

  // The map of one method, and the bars beside it.
  void maps_ui(DrawContext& context, std::size_t index, ImVec2 room, const KvMapAxes::Form& form) {
    if (!form.small) room.y = plot_height(context, room.y);
    Picture& picture = pictures_[index];
    const Map& map = picture.map;
    KvMapAxes& axes = axes_of(index);
    const float side = form.small ? 0 : KvMapAxes::bars_width(room.x);
    if (!ImPlot::BeginAlignedPlots("##rows", false)) return;
    MapPlotSpec spec = axes.spec({room.x - side, room.y}, form);
    spec.content_key = map.key;
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_kv_map(context.palette, *map, window, pixels);
    };
    const auto hit = map_plot_ui(context, spec, picture.texture,
                                 [&] { axes.marks_ui(context, map.question.place, index); });
    if (hit) point_at(context, index, *hit);
    if (!form.small) {
      ImGui::SameLine(0, 0);
      recall_bars_ui(context, map, picture.recall, axes.chunks(), {side, room.y}, form.x_axis);
    }
    ImPlot::EndAlignedPlots();
  }

  // Sinks and recent keys are both kept by rule, and their place says which they are.
  static widgets::LegendItem item_of(const widgets::Palette& palette, KeyState state) {
    if (state == KeyState::Sink || state == KeyState::Recent)
      return widgets::legend_of(palette, widgets::Meaning::ByRule);
    return {state::label_of(state), widgets::color_of(palette, state)};
  }

  // The states that any of the maps drawn has.
  void legend(DrawContext& context) const {
    std::vector<widgets::LegendItem> items;
    bool evicts = false;
    for (const KeyState state : kLegendOrder)
      if (std::any_of(drawn_.begin(), drawn_.end(), [&](std::size_t i) {
            return pictures_[i].map && pictures_[i].map->present[static_cast<std::size_t>(state)];
          })) {
        const widgets::LegendItem item = item_of(context.palette, state);
        if (items.empty() || items.back().text != item.text) items.push_back(item);
      }
    for (const std::size_t i : drawn_)
      evicts |= pictures_[i].map && !pictures_[i].map->map.evict_chunk.empty();
    if (evicts)
      items.push_back(
          {"evicted after this chunk", context.palette.died, widgets::LegendItem::Shape::Line});
    if (items.empty())
      ImGui::NewLine();  // what is below stands below the control
    else
      widgets::legend_ui(context.palette, items);
  }

  void point_at(DrawContext& context, std::size_t index, const MapPlotHit& hit) {
    const Map& result = pictures_[index].map;
    const Recall& recall = pictures_[index].recall;
    const auto chunk = static_cast<std::size_t>(hit.row);
    const auto key = static_cast<std::int32_t>(hit.col);
    axes_of(index).point_at(index, hit);
    const auto here = moved(index, drawn_.front(), chunk, key);
    if (hit.clicked && !result.stale && (here || aligned_ == nullptr))
      go_to_key(context, aligned_ == nullptr ? hit
                                             : MapPlotHit{static_cast<double>(here->first),
                                                          static_cast<double>(here->second), true});
    auto lines = key_and_chunk(context, result.question.place, hit);
    const analysis::KvMap& map = result->map;
    for (const std::size_t other : drawn_) {
      const auto at = moved(index, other, chunk, key);
      if (!at && is_alone(index, key)) lines.push_back({"in this prompt alone"});
      if (!at) continue;
      if (auto line = state_line(context, other, at->first, at->second))
        lines.push_back(std::move(*line));
    }
    if (const auto death = map.death_of(key); !death && !map.evict_chunk.empty())
      lines.push_back({"alive at the end"});
    const std::string who = drawn_.size() > 1 && aligned_ == nullptr
                                ? letter_of_method(index) + " in this chunk: "
                                : "";
    std::string kept =
        map.knows(chunk)
            ? fmt::format("{}{} past key{} kept", who, map.kept[chunk],
                          map.kept[chunk] == 1 ? "" : "s")
            : "the queries of this chunk were not recorded: nobody knows what it keeps";
    if (recall && !recall.stale && map.knows(chunk) && chunk < recall->size())
      kept += fmt::format(", mass recall {:.3f}", (*recall)[chunk]);
    lines.push_back({kept});
    widgets::tooltip(std::move(lines));
  }

  // "A: evicted", and when; of one map alone without the letter.
  std::optional<widgets::TooltipLine> state_line(DrawContext& context, std::size_t index,
                                                 std::size_t chunk, std::int32_t key) const {
    const Map& result = pictures_[index].map;
    if (!result || !result->map.knows(chunk) || key >= result->map.num_tokens) return std::nullopt;
    const KeyState state = result->map.at(chunk, key);
    const auto death = result->map.death_of(key);
    std::string text = death && state == KeyState::Evicted ? "" : state::label_of(state);
    if (death)
      text += fmt::format("{}evicted after {}", text.empty() ? "" : ", ",
                          chunk_name(result.question.place.info(), *death));
    if (drawn_.size() > 1)
      text = (aligned_ == nullptr ? letter_of_method(index)
                                  : state::readable_name(result.question.place.trace->name)) +
             ": " + text;
    return widgets::TooltipLine{text, widgets::color_of(context.palette, state)};
  }

  std::array<Picture, state::kMostMethods> pictures_;
  std::vector<std::size_t> drawn_;  // of these, in this frame
  KvDifferenceMap difference_;
  KvMapAxes axes_, other_axes_;  // of the place, and of the same place in another trace
  std::shared_ptr<const state::AlignedTraces> aligned_;  // while two traces are drawn
  SteadyHead head_;
};

}  // namespace

std::unique_ptr<Panel> make_kv_map_panel() { return std::make_unique<KvMapPanel>(); }

}  // namespace kvloupe::panels
