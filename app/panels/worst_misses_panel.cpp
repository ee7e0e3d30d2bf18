// worst_misses: why a method loses attention in every layer and head, as one bar, and the keys that it
// lost with most of it; or those that it dropped and that were wanted later. A click on a line goes
// there, so that the miss inspector explains it.
#include "app/panels/worst_misses_table.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using replay::LostKey;
using replay::Regret;
using replay::Stage;
using state::WorstMissesQuestion;
using Misses = state::Result<WorstMissesQuestion>;

constexpr const char* kView = "worst_misses";

class WorstMissesPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Misses result =
        shown_.ask(context.workspace, state::worst_misses_question(context.workspace));
    head_ui(context, result.question);
    option_ui(context, kView, "list", "list", widgets::em(7));
    option_beside_ui(context, kView, "keys", "of", widgets::em(6));
    if (!ready_ui(context, result, "Looking for lost keys, layer by layer")) return;
    const bool regrets = state::lists_regrets(context.workspace);
    filters_.draw(context, result, !regrets);
    progress_ui(context, result);
    headline_ui(context, state::sentence_of(result.question, *result));
    // In a low window the lines need the room: the sentence has said what bar and legend say.
    const auto has_room = [&](float height) {
      return context.figure || ImGui::GetContentRegionAvail().y > widgets::em(height);
    };
    if (result->lost.all.lost > 0 && has_room(11)) {
      bar_ui(context, *result);
      if (has_room(14)) legend_ui(context, *result);
    }
    ImGui::Dummy({0, widgets::grid(0.5F)});
    table_ui(context, result, regrets);
  }

 private:
  static void head_ui(DrawContext& context, const WorstMissesQuestion& question) {
    const state::Place& place = question.place;
    if (place.empty()) return;
    std::vector<widgets::Chip> chips;
    std::string caption;
    if (question.method.known()) {
      const state::MethodFacts facts =
          state::facts_of(place, state::choice_anew(*question.method.spec));
      caption = method_caption(context, facts);
      chips = method_chips(context, place, facts, context.workspace.selection().shown);
    } else {
      chips = trace_chips(context, place);
    }
    const std::string layers = fmt::format("all {} layers, {}", place.info().layers.size(),
                                           state::words_of(question.chunks, place.info()));
    chips.push_back(
        {layers, 0,
         std::string("Of every layer captured and head, in these chunks where keys are "
                     "chosen") +
             (question.chunks.chosen ? ": the choice of numbers in the bar above." : ".")});
    if (question.span)
      chips.push_back(
          {fmt::format("keys of \u201C{}\u201D", state::readable_name(question.span->name)),
           context.palette.accent, "The loss of these keys alone."});
    widgets::figure_head_ui(context.palette, context.figure, "Worst misses", caption,
                            fmt::format("{}  \u00B7  {}  \u00B7  {}, every head", place.trace->name,
                                        state::readable_name(place.info().model.name), layers),
                            chips);
  }

  static void progress_ui(DrawContext& context, const Misses& result) {
    if (result->finished()) return;
    widgets::text_colored(
        context.palette.muted,
        fmt::format("{} of {} layers so far", result->lost.layers.size(), result->num_layers));
  }

  // The lost mass by cause, as one bar.
  static void bar_ui(DrawContext& context, const WorstMissesQuestion::Answer& answer) {
    const replay::LostMass& sums = answer.lost.all;
    const float height = widgets::em(context.figure ? 2.0F : 1.5F);
    const float width = ImGui::GetContentRegionAvail().x;
    ImGui::Dummy({0, widgets::grid(0.5F)});
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* draw = ImGui::GetWindowDrawList();
    float x = at.x;
    const Stage* under = nullptr;
    ImGui::InvisibleButton("##causes", {width, height});
    const bool hovered = ImGui::IsItemHovered() && !context.figure;
    for (const Stage& cause : answer.causes) {
      const double share = sums.share_of(cause);
      const float right = x + width * static_cast<float>(share);
      const ImU32 color = widgets::color_of(context.palette, cause);
      widgets::key_rect(draw, context.palette, {x, at.y},
                        {std::max(right - 1, x + 0.5F), at.y + height}, color, widgets::em(0.15F));
      segment_text_ui(cause, share, {x, at.y}, {right, at.y + height}, color);
      const float mouse = ImGui::GetMousePos().x;
      if (hovered && mouse >= x && mouse < right) under = &cause;
      x = right;
    }
    if (under != nullptr)
      widgets::tooltip(
          "%s\n%s of what is lost, %s of all", replay::words_of(*under),
          state::rough_percent(sums.share_of(*under)).c_str(),
          state::rough_percent(sums.share_of(*under) * sums.lost / sums.whole).c_str());
  }

  static void segment_text_ui(Stage cause, double share, ImVec2 from, ImVec2 to, ImU32 color) {
    const std::string number = state::rough_percent(share);
    const std::string full = fmt::format("{}  {}", replay::words_of(cause), number);
    for (const std::string& text : {full, number}) {
      const ImVec2 size = ImGui::CalcTextSize(text.c_str());
      if (size.x > to.x - from.x - widgets::em(0.8F)) continue;
      ImGui::GetWindowDrawList()->AddText(
          {(from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2}, widgets::ink_on(color),
          text.c_str());
      return;
    }
  }

  static void legend_ui(DrawContext& context, const WorstMissesQuestion::Answer& answer) {
    std::vector<widgets::LegendItem> items;
    for (const Stage cause : answer.causes)
      items.push_back({fmt::format("{} {}", replay::words_of(cause),
                                   state::rough_percent(answer.lost.all.share_of(cause))),
                       widgets::color_of(context.palette, cause)});
    widgets::legend_ui(context.palette, items);
  }

  void table_ui(DrawContext& context, const Misses& result, bool regrets) {
    const replay::LostKeys& lost = result->lost;
    if (context.figure)
      heading_ui(
          context, regrets ? "Dropped, and wanted later" : "Lost with most attention",
          regrets ? fmt::format("first of {} listed, at most {} of each layer and head, by "
                                "chunks; M is attention summed over a chunk's queries and "
                                "the row's heads",
                                format_count(lost.regrets.size()), replay::kListedKeys)
                  : fmt::format("first of {} listed, at most {} of each layer, head and cause; M "
                                "is attention summed over the chunk's queries and the row's "
                                "heads, share of what all past keys receive there",
                                format_count(lost.keys.size()), replay::kListedKeys));
    if (regrets ? lost.regrets.empty() : lost.keys.empty()) {
      if (result->finished())
        widgets::empty_ui(context.palette, regrets ? "No key was dropped and wanted more later."
                                                   : "No key that receives attention was lost.");
      return;
    }
    const state::MissFilter everything;
    const state::MissFilter& filter = context.figure ? everything : filters_.filter();
    const std::string key = context.figure ? "" : filters_.key();
    if (regrets)
      regrets_.draw(context, result, lost.regrets, state::regret_columns(), state::kRegretsByMass,
                    filter, key);
    else
      keys_.draw(context, result, lost.keys, state::lost_columns(), state::kLostByMass, filter,
                 key);
  }

  state::LastAnswer<WorstMissesQuestion> shown_;
  MissFilterBar filters_;
  MissTable<LostKey> keys_;
  MissTable<Regret> regrets_;
};

}  // namespace

std::unique_ptr<Panel> make_worst_misses_panel() { return std::make_unique<WorstMissesPanel>(); }

}  // namespace kvloupe::panels
