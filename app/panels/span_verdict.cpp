#include "app/panels/span_verdict.h"

#include "app/panels/layer_rows.h"
#include "app/panels/view_frame.h"
#include "app/state/questions/why_lost/worst_misses.h"
#include "app/widgets/number_tiles.h"
#include "app/widgets/table.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::SpanChange;
using replay::SpanHead;
using replay::SpanLoss;
using state::SpanLossNow;

constexpr std::size_t kMostHeads = 6;
constexpr std::size_t kMostHeadsInWindow = 3;  // what is said of the key below needs the room
constexpr std::size_t kFewHeads = 1;           // in a low window

// How much of the span each head keeps.
class HeadGrid {
 public:
  explicit HeadGrid(const SpanLossNow& now)
      : loss_(*now.loss),
        grid_(
            now.question.place.info().layers,
            now.question.place.info().model.num_q_heads / std::max(1, loss_.layout.q_heads_per_row),
            loss_.layout.q_heads_per_row, widgets::em(2.2F), ImGui::GetTextLineHeight()) {
    if (loss_.has_causes)
      for (const SpanHead* head : loss_.heads_of_mass(replay::kShareThatMatters))
        matters_.insert({head->layer, head->row});
  }

  void draw(DrawContext& context, const state::Place& place) const {
    const widgets::Palette& p = context.palette;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    {
      const widgets::FontScope small(widgets::Type::Caption);
      grid_.numbers_ui(p.muted, loss_.layout.axis, widgets::em(1.9F));
    }
    for (std::size_t l = 0; l < grid_.layers.size(); ++l)
      for (int row = 0; row < grid_.num_rows; ++row)
        draw->AddRectFilled(grid_.from({l, row}), grid_.to({l, row}),
                            has_layer(grid_.layers[l]) ? p.dense : p.raised, 2);
    for (const SpanHead& head : loss_.heads) {
      const auto cell = grid_.find(head.layer, head.row);
      if (!cell) continue;
      const double share = static_cast<double>(head.kept) / static_cast<double>(head.keys);
      const ImU32 color = widgets::share_color(p, share);
      const ImVec2 a = grid_.from(*cell), b = grid_.to(*cell);
      draw->AddRectFilled(a, b, color, 2);
      if (matters_.contains({head.layer, head.row}))
        dot(draw, p, {(a.x + b.x) / 2, (a.y + b.y) / 2},
            std::min({widgets::em(0.2F), (b.x - a.x) / 3, (b.y - a.y) / 3}));
    }
    if (const auto here = grid_.cell_of(place)) {
      const ImVec2 a = grid_.from(*here), b = grid_.to(*here);
      draw->AddRect({a.x - 1.5F, a.y - 1.5F}, {b.x + 1.5F, b.y + 1.5F}, p.text, 2, 0,
                    widgets::em(0.13F));
    }
    const bool pressed = grid_.button_ui("###span heads");
    if (!context.figure && ImGui::IsItemHovered()) point_at(context, pressed);
  }

 private:
  // A run may cover fewer layers than the trace.
  bool has_layer(int layer) const {
    return loss_.layers.empty() || std::ranges::find(loss_.layers, layer) != loss_.layers.end();
  }

  // One look on every colour.
  static void dot(ImDrawList* draw, const widgets::Palette& palette, ImVec2 at, float radius) {
    draw->AddCircleFilled(at, radius + widgets::em(0.08F), palette.panel);
    draw->AddCircleFilled(at, radius, palette.text);
  }

  void point_at(DrawContext& context, bool pressed) const {
    const LayerRows::Cell cell = grid_.cell_at_mouse();
    const int layer = grid_.layers[cell.layer_idx];
    const auto head = std::find_if(
        loss_.heads.begin(), loss_.heads.end(),
        [&](const SpanHead& one) { return one.layer == layer && one.row == cell.row; });
    std::string text =
        fmt::format("layer {}, {}\n", layer, replay::row_words(loss_.layout, cell.row));
    if (!has_layer(layer)) {
      text += "the run has nothing of this layer";
    } else if (head == loss_.heads.end()) {
      text += "nothing of the span is lost here: every key is kept, or none of it comes before";
    } else {
      text += fmt::format("{} of {} keys kept", head->kept, head->keys);
      const double mass = loss_.sums().mass;
      if (loss_.has_causes && mass > 0)
        text += fmt::format("\n{} of the attention that the span receives",
                            state::share_text(head->mass / mass));
      if (head->enough)
        text += fmt::format("\na budget of {} keeps all of it", format_count(*head->enough));
    }
    context.workspace.pointer.at(
        {.place = grid_.place_at(context.workspace.place(), cell), .keys = loss_.span.keys});
    widgets::tooltip("%s", text.c_str());
    if (pressed) grid_.go_to(context, cell);
  }

  const SpanLoss& loss_;
  LayerRows grid_;
  std::set<std::pair<int, int>> matters_;
};

// One change, and what it is good for: in few words behind it, in a sentence under the mouse.
struct Remedy {
  std::string change;
  std::optional<selection::MethodSpec> spec;  // that a click makes method B
  std::string effect, sentence;
};

std::vector<Remedy> remedies_of(const SpanLoss& loss) {
  std::vector<Remedy> remedies;
  const SpanLoss::Sums sums = loss.sums();
  if (const auto enough = sums.enough; loss.has_budgets && enough)
    remedies.push_back(
        {fmt::format("budget {}", format_count(*enough)),
         loss.method.spec->with({{"budget_tokens", fmt::format("{}", *enough)}}),
         loss.exact_budgets ? "keeps all" : "may keep all",
         loss.exact_budgets
             ? "It keeps all of the span in every head; one less does not."
             : "It is the largest that a head needs; others may lose some with it."});
  const auto losing = sums.heads - sums.whole;
  for (const SpanChange& change : loss.changes)
    // What no click makes and fewer than one head in ten needs is not worth a line.
    if (change.heads > 0 && (change.spec || 10 * change.heads >= losing))
      remedies.push_back(
          {change.change, change.spec,
           fmt::format("keeps all in {} of {} heads", change.heads, losing),
           fmt::format("{} of the {} {} some of the span would then keep all of it.", change.heads,
                       losing, losing == 1 ? "head that loses" : "heads that lose")});
  return remedies;
}

// As many in a line as have room.
void remedy_ui(DrawContext& context, const SpanLossNow& now, const Remedy& remedy, bool first) {
  const std::string words = remedy.spec ? fmt::format("Try {} as B", remedy.change) : remedy.change;
  const auto effect_width = [&] {
    const widgets::FontScope small(widgets::Type::Caption);
    return ImGui::CalcTextSize(remedy.effect.c_str()).x;
  };
  const float padding = remedy.spec ? 2 * ImGui::GetStyle().FramePadding.x : 0;
  if (!first)
    beside_ui(widgets::em(1.2F),
              ImGui::CalcTextSize(words.c_str()).x + padding + widgets::em(0.5F) + effect_width());
  ImGui::BeginGroup();
  if (!remedy.spec) {
    ImGui::AlignTextToFramePadding();
    widgets::text_colored(context.palette.text, words);
  } else if (ImGui::Button(words.c_str())) {
    context.workspace.cursor.set_method(
        state::Slot::B, state::choice_of_spec(*remedy.spec, *now.question.place.trace));
  }
  ImGui::SameLine(0, widgets::em(0.5F));
  ImGui::AlignTextToFramePadding();
  {
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_colored(context.palette.muted, remedy.effect);
  }
  ImGui::EndGroup();
  if (!ImGui::IsItemHovered()) return;
  widgets::tooltip("%s%s%s", remedy.sentence.c_str(),
                   remedy.spec ? "\nclick: method B becomes " : "",
                   remedy.spec ? remedy.spec->canonical().c_str() : "");
}

void remedies_ui(DrawContext& context, const SpanLossNow& now, bool& search) {
  const SpanLoss& loss = *now.loss;
  if (context.figure) {
    const std::string remedy = replay::remedy_of(loss);
    if (!remedy.empty()) widgets::text_wrapped(context.palette.text, remedy);
    return;
  }
  const SpanLoss::Sums sums = loss.sums();
  if (now.may_look && sums.lost() > 0) {
    if (ImGui::Button("Look for the budget that keeps all of it###look")) search = true;
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "A larger budget of %s need not keep what a smaller one does:\nseveral are tried in "
          "every "
          "layer, which takes a while.",
          now.question.method.id().c_str());
  }
  if (sums.lost() == 0 || !loss.method.known() || !loss.has_causes) return;
  if (loss.has_budgets && !sums.enough)
    widgets::text_wrapped(context.palette.text,
                          "No budget that was tried keeps all of it in every head.");
  const std::vector<Remedy> remedies = remedies_of(loss);
  for (const Remedy& remedy : remedies)
    remedy_ui(context, now, remedy, &remedy == &remedies.front());
}

// The shares of what was lost, by the step that lost it.
void causes_ui(DrawContext& context, const SpanLoss& loss) {
  const SpanLoss::Sums sums = loss.sums();
  if (!loss.has_causes || sums.lost() == 0) return;
  const widgets::Palette& p = context.palette;
  const auto share_of = [&](replay::Stage cause) {
    return static_cast<double>(sums.lost_to[static_cast<std::size_t>(cause)]) /
           static_cast<double>(sums.lost());
  };
  const std::vector<replay::Stage> causes = sums.causes();
  if (causes.empty()) return widgets::text_colored(p.muted, "Why it was lost is not recorded.");
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = widgets::em(0.5F);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(at, {at.x + width, at.y + height}, p.dense, 2);
  float x = at.x;
  for (const replay::Stage cause : causes) {
    const float end = x + width * static_cast<float>(share_of(cause));
    draw->AddRectFilled({x, at.y}, {std::max(x + 1, end - 1), at.y + height},
                        widgets::color_of(p, cause), 2);
    x = end;
  }
  ImGui::Dummy({width, height});
  const widgets::FontScope small(widgets::Type::Caption);
  widgets::text_colored(p.muted, "lost keys by");
  for (const replay::Stage cause : causes) {
    const std::string words =
        fmt::format("{} {}", state::rough_percent(share_of(cause)), replay::words_of(cause));
    const float mark = widgets::em(0.7F);
    beside_ui(widgets::em(0.9F), mark + widgets::em(0.35F) + ImGui::CalcTextSize(words.c_str()).x);
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float top = corner.y + (ImGui::GetTextLineHeight() - mark) / 2;
    draw->AddRectFilled({corner.x, top}, {corner.x + mark, top + mark}, widgets::color_of(p, cause),
                        2);
    ImGui::Dummy({mark, 0});
    ImGui::SameLine(0, widgets::em(0.35F));
    widgets::text_colored(p.text, words);
  }
}

// What comes in place of the line that says that causes are asked for: the bar, its legend and a line of buttons. So
// that nothing below moves when they come.
void room_of_causes_ui() {
  const float spacing = ImGui::GetStyle().ItemSpacing.y;
  ImGui::Dummy({0, widgets::em(0.5F) + spacing + ImGui::GetFrameHeight()});
}

// A's and B's may stand below each other.
void lettered_ui(DrawContext& context, state::Slot slot, const char* title, const char* remark) {
  letter_ui(context, slot);
  ImGui::SameLine(0, widgets::em(0.5F));
  heading_ui(context, title, remark);
}

// More than a few on demand, by a button in the line of the heading.
void all_heads_ui(const SpanLoss& loss, bool& all) {
  const std::size_t most = loss.heads_of_mass(replay::kShareThatMatters).size();
  if (most <= kMostHeadsInWindow) return;
  const std::string words = all ? "fewer" : fmt::format("all {}", most);
  const widgets::FontScope small(widgets::Type::Caption);
  beside_ui(widgets::em(0.8F), ImGui::CalcTextSize(words.c_str()).x + widgets::em(1));
  if (ImGui::SmallButton((words + "###all heads").c_str())) all = !all;
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s", all ? "List those that matter most"
                               : "List all heads that matter: those that give the span most of its "
                                 "attention");
}

void heads_ui(DrawContext& context, const state::Place& place, const SpanLoss& loss,
              state::Slot slot, bool& all) {
  const std::size_t most = loss.heads_of_mass(replay::kShareThatMatters).size();
  // In a low window the verdict of the key below needs the room.
  const bool low = ImGui::GetMainViewport()->Size.y < widgets::em(54);
  const std::size_t few = context.figure ? kMostHeads : low ? kFewHeads : kMostHeadsInWindow;
  const auto heads = state::heads_to_list(loss, place, all && !context.figure ? most : few);
  const table::Table table = state::span_heads_table(loss, heads);
  if (table.rows.empty()) return;
  lettered_ui(context, slot, "Heads that matter to the span", "");
  if (!context.figure) all_heads_ui(loss, all);
  widgets::TableLook look{{0.6F, 1.4F, 0.6F, 0.5F, 1.0F, 1.0F, 1.8F}};
  if (loss.has_budgets) look.weights.push_back(0.85F);
  look.ink = [&](std::size_t row, std::size_t column) {
    if (column != 2) return context.palette.text;
    // A head that keeps 19 of 22 has not lost the span: only what keeps less than half stands out.
    const replay::SpanHead& head = *heads[row];
    return head.keeps_all()            ? context.palette.hit
           : 2 * head.kept < head.keys ? context.palette.miss
                                       : context.palette.text;
  };
  look.strong = [&](std::size_t row) { return state::is_head_of(place, loss, *heads[row]); };
  const widgets::FontScope small(widgets::Type::Caption);
  if (!context.figure) look.pointer = &context.workspace.pointer;
  widgets::table_ui(context.palette, "##span heads table", table, look);
}

void grid_ui(DrawContext& context, const SpanLossNow& now, state::Slot slot) {
  const SpanLoss& loss = *now.loss;
  if (loss.heads.empty()) return;
  lettered_ui(context, slot, "All layers and heads",
              loss.has_causes ? "a dot: this head matters" : "");
  beside_ui(widgets::em(1), widgets::em(10.5F));
  widgets::color_scale_ui(context.palette, widgets::share_color, "0", "1", "share kept",
                          widgets::em(4));
  HeadGrid(now).draw(context, now.question.place);
}

}  // namespace

void span_verdict_ui(DrawContext& context, const SpanLossNow& now, state::Slot slot, bool& search) {
  const widgets::Palette& p = context.palette;
  if (!now.loss) {
    widgets::text_wrapped(now.error.empty() ? p.muted : p.error,
                          now.error.empty() ? "Counting what is kept of it\u2026" : now.error);
    return;
  }
  const SpanLoss& loss = *now.loss;
  letter_ui(context, slot);
  ImGui::SameLine(0, widgets::em(0.5F));
  headline_ui(context, replay::headline_of(loss));
  if (!context.figure && ImGui::IsItemHovered())
    context.workspace.pointer.at({.words = replay::sentence_of(loss)});
  std::vector<widgets::NumberTile> tiles;
  for (const replay::SpanNumber& number : replay::numbers_of(loss))
    tiles.push_back({number.value, number.name, 0, number.explained});
  if (!tiles.empty()) widgets::number_tiles_ui(p, tiles);
  causes_ui(context, loss);
  remedies_ui(context, now, search);
  if (!now.error.empty()) widgets::text_wrapped(p.error, now.error);
  if (now.doing.empty()) return;
  widgets::text_colored(p.muted, now.doing + "\u2026");
  if (!loss.has_causes && loss.sums().lost() > 0 && !context.figure) room_of_causes_ui();
}

void span_map_ui(DrawContext& context, const SpanLossNow& now, state::Slot slot) {
  if (now.loss) grid_ui(context, now, slot);
}

void span_heads_ui(DrawContext& context, const SpanLossNow& now, state::Slot slot, bool& all) {
  if (!now.loss || now.loss->heads.empty() || !now.loss->has_causes) return;
  heads_ui(context, now.question.place, *now.loss, slot, all);
}

}  // namespace kvloupe::panels
