// head_merge: what each query head of a row recalls with a set of its own beside what it recalls with
// the one that all share, and the keys that each lost by sharing. A click chooses the key.
#include "app/panels/view_frame.h"
#include "app/state/labels.h"
#include "app/state/questions/why_lost/head_merge.h"
#include "app/state/questions/why_lost/worst_misses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using state::HeadMergeQuestion;
using Head = replay::HeadChoices::Head;
using Merge = state::Result<HeadMergeQuestion>;

class HeadMergePanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Merge result =
        shown_.ask(context.workspace, state::head_merge_question(context.workspace));
    head_ui(context, result.question);
    if (!ready_ui(context, result, "Asking the heads one by one")) return;
    if (!result->nothing.empty()) {
      widgets::empty_ui(context.palette, result->nothing);
      return;
    }
    headline_ui(context, state::sentence_of(result.question, *result));
    widgets::legend_ui(
        context.palette,
        {{"with a set of its own", color_alone(context), widgets::LegendItem::Shape::Ring},
         {"with the set that they share", color_merged(context), widgets::LegendItem::Shape::Dot}});
    ImGui::Dummy({0, widgets::grid(0.5F)});
    bars_ui(context, result);
    ImGui::Dummy({0, widgets::grid(1)});
    lost_ui(context, result);
  }

 private:
  static ImU32 color_alone(DrawContext& context) { return context.palette.text; }
  static ImU32 color_merged(DrawContext& context) { return context.palette.hit; }

  static void head_ui(DrawContext& context, const HeadMergeQuestion& question) {
    const state::Place& place = question.place;
    if (question.method.empty()) {
      widgets::figure_head_ui(context.palette, context.figure, "Head merge", "",
                              place_caption(place), trace_chips(context, place));
      return;
    }
    // What is shown was selected anew.
    const state::MethodChoice method =
        question.method.known() ? state::choice_anew(*question.method.spec) : question.method;
    method_head_ui(context, "Head merge", place, state::facts_of(place, method),
                   context.workspace.selection().shown);
  }

  // The shares that the heads keep, on an axis of whole tenths around them: a dot alone and one merged.
  struct Axis {
    double low = 0, high = 1;

    explicit Axis(const std::vector<Head>& heads) {
      double least = 1, most = 0;
      for (const Head& head : heads) {
        least = std::min({least, head.recall_alone, head.recall_merged});
        most = std::max({most, head.recall_alone, head.recall_merged});
      }
      low = std::max(0.0, std::floor(10 * least - 0.2) / 10);
      high = std::min(1.0, std::ceil(10 * most + 0.2) / 10);
      if (high <= low) high = low + 0.1;
    }
    float at(double share) const { return static_cast<float>((share - low) / (high - low)); }
  };

  static void bars_ui(DrawContext& context, const Merge& result) {
    const auto& heads = result->choices.heads;
    const widgets::Palette& p = context.palette;
    const Axis axis(heads);
    const float label = widgets::em(7), number = widgets::em(9);
    const float room = std::max(widgets::em(4), ImGui::GetContentRegionAvail().x - label - number);
    // Few heads may stand far apart, and take at most a sixth of the height.
    const float each = ImGui::GetContentRegionAvail().y * 0.16F / static_cast<float>(heads.size());
    const float line = std::clamp(each, ImGui::GetTextLineHeight(), widgets::em(2.2F));
    const float dot = widgets::em(0.36F);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const ImVec2 top = ImGui::GetCursorScreenPos();
    const float height =
        (line + ImGui::GetStyle().ItemSpacing.y) * static_cast<float>(heads.size());
    const int tenths = static_cast<int>(std::lround(10 * (axis.high - axis.low)));
    for (int i = 0; i <= tenths; ++i) {
      const double share = axis.low + 0.1 * i;
      const float x = top.x + label + room * axis.at(share);
      draw->AddLine({x, top.y}, {x, top.y + height}, p.grid);
      const std::string words = fmt::format("{:.0f} %", 100 * share);
      const widgets::FontScope small(widgets::Type::Caption);
      draw->AddText({x - ImGui::CalcTextSize(words.c_str()).x / 2, top.y + height}, p.muted,
                    words.c_str());
    }
    for (const Head& head : heads) {
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const bool here = head.q_head == context.workspace.place().q_head;
      const float middle = at.y + line / 2, text_y = middle - ImGui::GetTextLineHeight() / 2;
      draw->AddText({at.x, text_y}, here ? p.accent : p.text,
                    fmt::format("query head {}", head.q_head).c_str());
      const float alone = at.x + label + room * axis.at(head.recall_alone),
                  merged = at.x + label + room * axis.at(head.recall_merged);
      draw->AddLine({alone, middle}, {merged, middle}, p.muted, widgets::em(0.2F));
      draw->AddCircleFilled({merged, middle}, dot, color_merged(context));
      draw->AddCircleFilled({alone, middle}, dot, p.panel);
      draw->AddCircle({alone, middle}, dot, color_alone(context), 0, widgets::em(0.13F));
      draw->AddText(
          {at.x + label + room + widgets::em(1.2F), text_y}, p.muted,
          fmt::format("{:.1f} \u2192 {:.1f} %", 100 * head.recall_alone, 100 * head.recall_merged)
              .c_str());
      ImGui::PushID(head.q_head);
      const bool pressed =
          ImGui::InvisibleButton("##head", {ImGui::GetContentRegionAvail().x, line});
      if (!context.figure && ImGui::IsItemHovered()) {
        state::Place there = result.question.place;
        there.q_head = head.q_head;
        context.workspace.pointer.at({.row = fmt::format("{}\t{:.6g}\t{:.6g}", head.q_head,
                                                         head.recall_alone, head.recall_merged),
                                      .place = there});
        widgets::tooltip(
            "query head %d keeps %.2f %% of its attention to past keys alone, %.2f %% merged",
            head.q_head, 100 * head.recall_alone, 100 * head.recall_merged);
      }
      if (pressed && !context.figure && !result.stale)
        context.workspace.cursor.set_q_head(head.q_head);
      ImGui::PopID();
    }
    ImGui::Dummy({0, ImGui::GetTextLineHeight()});  // the axis
  }

  static constexpr float kInWindow = 10;

  // A column a head: the keys that it alone would have kept, and those that it gets for them.
  static void lost_ui(DrawContext& context, const Merge& result) {
    const auto& heads = result->choices.heads;
    // A figure that cannot show two keys of a head shows none; most have room for those lost alone.
    if (context.figure && context.least_plot <= 0 &&
        ImGui::GetContentRegionAvail().y < 4 * ImGui::GetTextLineHeightWithSpacing())
      return;
    heading_ui(context, context.figure ? "Lost by the merge" : "Lost and gained by the merge",
               context.figure
                   ? "keys that the head alone would keep, by share of its attention to the past"
                   : "the best keys that the head alone would keep, and those that it gets in "
                     "their place, by share of its attention to past keys");
    // Narrow windows hold fewer columns side by side than there are heads.
    const float least = widgets::em(11);
    const auto most =
        static_cast<std::size_t>(std::max(1.0F, ImGui::GetContentRegionAvail().x / least));
    const std::size_t columns = std::min(heads.size(), most);
    ImGuiTableFlags flags = ImGuiTableFlags_SizingStretchSame | ImGuiTableFlags_BordersInnerV |
                            ImGuiTableFlags_PadOuterX;
    if (!context.figure) flags |= ImGuiTableFlags_ScrollY;
    if (!ImGui::BeginTable("##heads", static_cast<int>(columns), flags)) return;
    for (const Head& head : heads) {
      ImGui::TableNextColumn();
      ImGui::PushID(head.q_head);
      head_keys_ui(context, result, head);
      ImGui::PopID();
    }
    ImGui::EndTable();
  }

  static void head_keys_ui(DrawContext& context, const Merge& result, const Head& head) {
    {
      const widgets::FontScope strong(widgets::Type::Strong);
      widgets::text_colored(context.palette.text, fmt::format("query head {}", head.q_head));
    }
    const double lost = 100 * (head.recall_alone - head.recall_merged);
    ImGui::SameLine();
    widgets::text_colored(
        context.palette.muted,
        fmt::format("{} {:.1f} points", lost < 0 ? "gains" : "loses", std::abs(lost)));
    const float line = ImGui::GetTextLineHeightWithSpacing();
    constexpr std::size_t kOnPaper = 8;  // of each head; the page grows by what they need
    // Both lists in sight, where there is room for two keys of each.
    auto most = static_cast<std::size_t>(
        std::clamp((ImGui::GetContentRegionAvail().y / line - 2.3F) / 2, 2.0F, kInWindow));
    if (context.least_plot > 0)
      most = kOnPaper;
    else if (context.figure)  // as many as fit whole
      most =
          static_cast<std::size_t>(std::max(0.0F, ImGui::GetContentRegionAvail().y / line - 0.5F));
    keys_ui(context, result, head, head.lost, "lost", context.palette.miss, most);
    if (!context.figure)
      keys_ui(context, result, head, head.gained, "gained", context.palette.hit, most);
  }

  // Keys with their share of the head's attention to past keys.
  static void keys_ui(DrawContext& context, const Merge& result, const Head& head,
                      const std::vector<Head::Key>& keys, const char* what, ImU32 color,
                      std::size_t most) {
    if (!context.figure || keys.empty())
      widgets::text_colored(context.palette.muted,
                            keys.empty() ? fmt::format("nothing {}", what) : what);
    ImGui::PushID(what);
    for (std::size_t i = 0; i < std::min(keys.size(), most); ++i)
      key_ui(context, result, head, keys, i, color);
    ImGui::PopID();
  }

  static void key_ui(DrawContext& context, const Merge& result, const Head& head,
                     const std::vector<Head::Key>& keys, std::size_t index, ImU32 color) {
    const Head::Key& key = keys[index];
    const state::Place& place = result.question.place;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float room = ImGui::GetContentRegionAvail().x;
    // The bar has what the token leaves.
    const float number = widgets::em(4),
                bar = std::max(room - number - widgets::em(11), room * 0.2F);
    const state::Place& here = context.workspace.place();
    const bool chosen = here.has_key(key.key);
    const double share = head.whole > 0 ? key.mass / head.whole : 0;
    if (context.figure)
      ImGui::Dummy({room, ImGui::GetTextLineHeight()});
    else if (ImGui::Selectable(fmt::format("###key {}", index).c_str(), chosen) && !result.stale)
      state::go_to(context.workspace, {place.layer, result->row, place.chunk, key.key},
                   result->layout);
    if (!context.figure && ImGui::IsItemHovered()) {
      context.workspace.pointer.at(place, key.key);
      widgets::tooltip("key %s\n%.4g %% of the head's attention to past keys, M %.4g",
                       token_line(place, key.key).c_str(), 100 * share, key.mass);
    }
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const float text = ImGui::GetTextLineHeight();
    const double part = result->most_share > 0 ? share / result->most_share : 0;
    draw->AddText(at, context.palette.muted, state::brief_share_text(share).c_str());
    draw->AddText(
        {at.x + number, at.y}, context.palette.text,
        widgets::elided(token_line(place, key.key), room - number - bar - widgets::em(0.5F))
            .c_str());
    const float from = at.x + room - bar;
    draw->AddRectFilled(
        {from, at.y + text * 0.3F},
        {from + std::max(1.0F, bar * static_cast<float>(part)), at.y + text * 0.75F}, color,
        widgets::em(0.1F));
  }

  state::LastAnswer<HeadMergeQuestion> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_head_merge_panel() { return std::make_unique<HeadMergePanel>(); }

}  // namespace kvloupe::panels
