// selected_vs_true: the keys that attention truly weighs, largest first, coloured by whether the
// method, or both, kept them; the table names each with its text.
#include "app/panels/rank_bars.h"
#include "app/panels/show_control.h"
#include "app/state/labels.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/token_text.h"
#include "app/widgets/number_tiles.h"
#include "core/base/units.h"
#include "core/replay/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace kvloupe::panels {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;
using state::SelectedByBothQuestion;
using state::SelectedVsTrueQuestion;
using state::Slot;
using Verdicts = state::Result<SelectedVsTrueQuestion>;
using Both = state::Result<SelectedByBothQuestion>;
using Span = std::optional<trace::NamedKeys>;

constexpr const char* kView = "selected_vs_true";
constexpr const char* kTitle = "Selected versus true keys";

class SelectedVsTruePanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    show_now(context, kView) == state::Show::Both ? both_ui(context) : one_ui(context);
  }

 private:
  void one_ui(DrawContext& context) {
    const state::Selection& s = context.workspace.selection();
    const SelectedVsTrueQuestion question{s.place, context.workspace.method()};
    const Verdicts result = shown_.ask(context.workspace, question);
    head_.begin();
    show_ui(context, kView);
    const state::Place& place = result.question.place;
    method_head_ui(context, kTitle, place,
                   result ? result->facts : state::facts_of(place, result.question.method),
                   s.shown);
    if (!ready_ui(context, result, "Ranking the keys by true attention mass")) return;
    if (first_chunk_ui(context, result->cell)) return;
    method_note_ui(context, place, result->facts);
    if (const std::string verdict = state::verdict_of(*result, place); !verdict.empty())
      headline_ui(context, verdict);
    numbers_ui(context, *result);
    RankEnds ends;
    ends.include(*result);
    const RankedKeys ranked{*result, place, result.stale};
    const auto bars = [&](ImVec2 size) { bars_.draw(context, {ranked}, ends, "##bars", size); };
    const auto table = [&] { table_ui(context, result); };
    parts_ui(context, place, result->listed, bars, table);
  }

  // One plot of the mass with a lane for each method; one table names the keys with what both did.
  void both_ui(DrawContext& context) {
    const Both result =
        both_.ask(context.workspace, state::selected_by_both_question(context.workspace));
    const state::Place& place = result.question.place;
    head_.begin();
    show_ui(context, kView);
    widgets::figure_head_ui(context.palette, context.figure, kTitle, "", place_caption(place), {});
    const auto facts = [&](bool b) {
      const state::MethodChoice& method = b ? result.question.b : result.question.a;
      if (!result) return state::facts_of(place, method);
      return b ? result->of_b->facts : result->of_a->facts;
    };
    both_chips_ui(context, place, facts(false), facts(true));
    if (!ready_ui(context, result, "Ranking the keys by true attention mass")) return;
    if (first_chunk_ui(context, result->of_a->cell)) return;
    headline_ui(context, state::verdict_of_both(*result, place));
    if (!result->same_order)
      widgets::text_wrapped(context.palette.muted,
                            "B's rows hold other query heads: ranks and masses in the table are "
                            "those of A's row.");
    RankEnds ends;
    ends.include(*result->of_a);
    ends.include(*result->of_b);
    const auto bars = [&](ImVec2 size) { two_bars_ui(context, result, ends, size); };
    const auto table = [&] { table_ui(context, result); };
    parts_ui(context, place, result->listed, bars, table);
  }

  // Bars of the same keys share a plot; where B's rows hold other query heads, each has its own.
  void two_bars_ui(DrawContext& context, const Both& result, const RankEnds& ends, ImVec2 size) {
    const float top = ImGui::GetCursorPosY(), room = ImGui::GetContentRegionAvail().x;
    const bool beside = room > widgets::em(72);
    const float line =
        ImGui::GetTextLineHeight() + widgets::em(0.15F);  // descenders of the bold name
    const std::array answers{result->of_a.get(), result->of_b.get()};
    std::vector<RankedKeys> methods;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (i > 0 && beside) ImGui::SameLine(0, 0);
      ImGui::BeginChild(i == 0 ? "line a" : "line b", {beside ? room / 2 : room, line});
      method_line_ui(context, i, answers[i]->facts.choice, numbers_of(*answers[i]));
      ImGui::EndChild();
      methods.push_back({*answers[i], result.question.place, result.stale});
    }
    size.y -= ImGui::GetCursorPosY() - top;
    if (result->same_order) return bars_.draw(context, methods, ends, "##bars of both", size);
    size.y = std::max(least_plot_height(), (size.y - ImGui::GetStyle().ItemSpacing.y) / 2);
    bars_.draw(context, {methods[0]}, ends, "##bars", size);
    bars_.draw(context, {methods[1]}, ends, "##bars b", size);
  }

  // "recall 0.931", "0.512 without key 0", "240 hits", "16 misses"
  static std::vector<std::string> numbers_of(const SelectedVsTrueQuestion::Answer& answer) {
    const analysis::SelectedVsTrue& cell = answer.cell;
    const auto count = [](std::int64_t n, const char* one, const char* several) {
      return fmt::format("{} {}", format_count(n), n == 1 ? one : several);
    };
    std::vector<std::string> numbers{fmt::format("recall {:.3f}", cell.mass_recall)};
    if (const auto rest = answer.recall_without_sink)
      numbers.push_back(fmt::format("{:.3f} without key 0", *rest));
    numbers.push_back(count(cell.hits, "hit", "hits"));
    numbers.push_back(count(cell.misses, "miss", "misses"));
    return numbers;
  }

  static bool first_chunk_ui(DrawContext& context, const analysis::SelectedVsTrue& cell) {
    if (cell.num_candidates != 0) return false;
    widgets::empty_ui(context.palette,
                      "This chunk is the first one: no key lies before it. Step to a later chunk.");
    return true;
  }

  // Legend, bars and table: beside each other in a wide figure, else below each other.
  template <typename Bars, typename Table>
  void parts_ui(DrawContext& context, const state::Place& place, const state::ListedKeys& listed,
                const Bars& bars, const Table& table) {
    const float width = ImGui::GetContentRegionAvail().x;
    if (context.figure && width > widgets::em(38)) {
      ImGui::BeginChild("bars", {std::min(width * 0.58F, width - widgets::em(23)), 0});
      legend(context, place);
      bars(ImGui::GetContentRegionAvail());
      ImGui::EndChild();
      ImGui::SameLine();
      ImGui::BeginChild("table", {0, 0});
      table();
      ImGui::EndChild();
      return;
    }
    legend(context, place);
    const state::Selection& s = context.workspace.selection();
    head_.end(fmt::format("{}|{}|{}", place.cell_key(), s.choice(Slot::A).key(),
                          s.choice(Slot::B).key()));
    const bool both = show_now(context, kView) == state::Show::Both;
    const float share = both ? 0.6F : 0.56F;
    // Lanes need room below the bars.
    const float least =
        std::max({least_plot_height(), context.least_plot, widgets::em(both ? 16 : 0)});
    const float room = ImGui::GetContentRegionAvail().y;
    float height = std::clamp(room * share, least, widgets::em(both ? 24 : 20));
    // The last row of the table that is in sight is a whole one.
    const float row = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const float rows = room - height - between_;
    if (!context.figure && rows > 0) height += std::fmod(rows, row);
    bars({-1, height});
    const float end_of_bars = ImGui::GetCursorPosY();
    if (!context.figure) filter_ui(context, listed, both);
    between_ = ImGui::GetCursorPosY() - end_of_bars + ImGui::GetStyle().ItemSpacing.y;
    table();
  }
  // The marks of watched keys are named here: a name among them would lie over some.
  static void legend(DrawContext& context, const state::Place& place) {
    std::vector<widgets::LegendItem> items{{"hit: kept and true", context.palette.hit},
                                           {"miss: true, not kept", context.palette.miss},
                                           {"waste: kept, not true", context.palette.waste}};
    if (const Span span = state::watched_keys(place))
      items.push_back({state::readable_name(span->name), context.palette.muted,
                       widgets::LegendItem::Shape::Triangle});
    widgets::legend_ui(context.palette, items);
  }

  static widgets::NumberTile number_tile(replay::Number number, double value) {
    return {fmt::format("{:.3f}", value), replay::info_of(number).title};
  }

  static void numbers_ui(DrawContext& context, const SelectedVsTrueQuestion::Answer& answer) {
    const analysis::SelectedVsTrue& v = answer.cell;
    const auto& p = context.palette;
    std::vector<widgets::NumberTile> tiles{
        number_tile(replay::Number::MassRecall, v.mass_recall),
        number_tile(replay::Number::TopkOverlap, v.topk_overlap),
        {format_count(v.hits), v.hits == 1 ? "hit" : "hits", p.hit},
        {format_count(v.misses), v.misses == 1 ? "miss" : "misses", p.miss},
        {format_count(v.wastes), v.wastes == 1 ? "waste" : "wastes",
         p.kind == widgets::ThemeKind::Dark ? p.waste : p.warning},
        {fmt::format("{:.3f}", v.missed_mass), "mass missed", p.miss}};
    if (const auto rest = answer.recall_without_sink)
      tiles.insert(tiles.begin() + 1, {fmt::format("{:.3f}", *rest), "without key 0", 0,
                                       "Mass recall over all candidates but key 0, the sink."});
    // Room is short in the window: the filter below says how many wastes there are, and what is missed is
    // the complement of the recall.
    if (!context.figure) tiles.resize(tiles.size() - 2);
    widgets::number_tiles_ui(p, tiles);
  }

  // Each filter says how many keys it lists.
  static void filter_ui(DrawContext& context, const state::ListedKeys& listed, bool both) {
    std::string chosen = context.workspace.option(kView, "filter");
    if (!both && chosen == "kept_by_one") chosen = "all";
    const auto choice_ui = [&](const char* value, const char* label) {
      std::string words = label;
      if (const auto* only = listed.by(value)) words += " " + format_count(std::ssize(*only));
      const float width = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x +
                          ImGui::CalcTextSize(words.c_str()).x;
      if (std::string_view(value) != "all") beside_ui(widgets::em(0.8F), width);
      if (ImGui::RadioButton(fmt::format("{}###{}", words, value).c_str(), chosen == value))
        context.workspace.cursor.set_option("selected_vs_true.filter", value);
    };
    choice_ui("all", "top keys");
    if (both) choice_ui("kept_by_one", "kept by one");
    choice_ui("misses", both ? "missed" : "misses");
    choice_ui("wastes", both ? "wasted" : "wastes");
  }

  // What the table shows of one method, or of both.
  struct Listed {
    const SelectedVsTrueQuestion::Answer& ranks;
    const SelectedByBothQuestion::Answer* both = nullptr;
    const std::vector<std::int32_t>* only = nullptr;  // indices into the ranks; null: all
    const state::Place& place;
    bool stale = false;
  };

  static void table_ui(DrawContext& context, const Verdicts& result) {
    table_ui(context,
             {*result, nullptr, result->listed.by(context.workspace.option(kView, "filter")),
              result.question.place, result.stale});
  }
  static void table_ui(DrawContext& context, const Both& result) {
    table_ui(context, {*result->of_a, result.answer.get(),
                       result->listed.by(context.workspace.option(kView, "filter")),
                       result.question.place, result.stale});
  }

  static void table_ui(DrawContext& context, const Listed& listed) {
    const std::vector<KeyRank>& keys = listed.ranks.cell.by_true_rank;
    ImGuiTableFlags flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                            ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
    // Where few rows have room the panel scrolls, and the table with it.
    const bool scrolls = !context.figure && ImGui::GetContentRegionAvail().y >= widgets::em(11);
    if (scrolls) flags |= ImGuiTableFlags_ScrollY;
    const float room =
        std::max(ImGui::GetContentRegionAvail().y, context.figure ? context.least_plot : 0);
    const bool both = listed.both != nullptr;
    if (!ImGui::BeginTable(both ? "##keys of both" : "##keys", both ? 6 : 5, flags,
                           {0, scrolls ? room : 0}))
      return;
    ImGui::TableSetupScrollFreeze(0, 1);
    constexpr std::array kColumns{std::pair{"rank", 0.9F}, std::pair{"key", 0.9F},
                                  std::pair{"token", 2.0F}, std::pair{"mass", 1.4F}};
    for (const auto& [name, width] : kColumns)
      ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthStretch, width);
    for (const char* name : both ? std::vector{"A", "B"} : std::vector{"fate"})
      ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthFixed,
                              widgets::em(1.1F) + ImGui::CalcTextSize("neither").x);
    ImGui::TableHeadersRow();
    const Span span = state::watched_keys(listed.place);
    ImGuiListClipper clipper;
    const std::size_t all = listed.only != nullptr ? listed.only->size() : keys.size();
    // A figure shows as many as fit whole below the heads of the columns.
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y + 1;
    const std::size_t fit = std::max<std::size_t>(static_cast<std::size_t>(room / line), 2) - 1;
    clipper.Begin(static_cast<int>(context.figure ? std::min(all, fit) : all));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const auto row = static_cast<std::size_t>(i);
        const KeyRank& key =
            keys[listed.only != nullptr ? static_cast<std::size_t>((*listed.only)[row]) : row];
        ImGui::PushID(i);
        row_ui(context, listed, key, span);
        ImGui::PopID();
      }
    ImGui::EndTable();
  }

  static void row_ui(DrawContext& context, const Listed& listed, const KeyRank& key,
                     const Span& span) {
    const state::Place& place = listed.place;
    ImGui::TableNextRow();
    if (span && span->keys.contains(key.position))
      ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1,
                             widgets::with_alpha(context.palette.text, 0.14F));
    ImGui::TableNextColumn();
    if (ImGui::Selectable(format_count(key.true_rank + 1).c_str(), place.has_key(key.position),
                          ImGuiSelectableFlags_SpanAllColumns) &&
        !listed.stale)
      context.workspace.cursor.set_keys(key.position, key.position + 1);
    if (!context.figure && ImGui::IsItemHovered()) point_at_row(context, listed, key);
    ImGui::TableNextColumn();
    widgets::text_colored(context.palette.text, format_count(key.position));
    ImGui::TableNextColumn();
    {
      const widgets::FontScope mono(widgets::Type::Number);
      const std::string& label = place.trace->token_label[static_cast<std::size_t>(key.position)];
      widgets::text_colored(context.palette.text,
                            widgets::elided(label, ImGui::GetContentRegionAvail().x));
    }
    ImGui::TableNextColumn();
    widgets::text_colored(context.palette.muted, share_text(listed.ranks.share_of(key)));
    ImGui::TableNextColumn();
    fate_ui(context, key.verdict);
    if (listed.both == nullptr) return;
    ImGui::TableNextColumn();
    fate_ui(context, listed.both->in_b(key.position));
  }

  static void point_at_row(DrawContext& context, const Listed& listed, const KeyRank& key) {
    const state::Place& place = listed.place;
    const std::string share = share_text(listed.ranks.share_of(key));
    std::string fate = state::label_of(key.verdict);
    if (listed.both != nullptr)
      fate = fmt::format("A {}, B {}", fate, state::label_of(listed.both->in_b(key.position)));
    context.workspace.pointer.at(
        {.words = fmt::format("key {}\ntrue rank {}, {} of the past's mass, {}",
                              token_line(place, key.position), key.true_rank + 1, share, fate),
         .row = fmt::format("{}\t{}\t{}\t{}\t{}", key.true_rank + 1, key.position,
                            place.trace->token_label[static_cast<std::size_t>(key.position)], share,
                            fate),
         .place = place,
         .keys = {key.position, key.position + 1}});
  }

  static void fate_ui(DrawContext& context, KeyVerdict verdict) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float box = widgets::em(0.7F);
    const float top = at.y + (ImGui::GetTextLineHeight() - box) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, top}, {at.x + box, top + box},
                                              widgets::color_of(context.palette, verdict), 2);
    ImGui::SetCursorScreenPos({at.x + box + widgets::em(0.4F), at.y});
    widgets::text_colored(context.palette.text, state::label_of(verdict));
  }

  state::LastAnswer<SelectedVsTrueQuestion> shown_;
  state::LastAnswer<SelectedByBothQuestion> both_;
  SteadyHead head_;
  float between_ = 0;  // bars and table, of the last frame
  RankBars bars_;
};

}  // namespace

std::unique_ptr<Panel> make_selected_vs_true_panel() {
  return std::make_unique<SelectedVsTruePanel>();
}

}  // namespace kvloupe::panels
