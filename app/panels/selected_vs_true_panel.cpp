// selected_vs_true: the keys that attention truly weighs, largest first, coloured by whether the
// method kept them; the table names each with its text.
#include "app/panels/map_plot.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvloupe::panels {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;
using analysis::SelectedVsTrue;

enum class Filter { TopKeys, Misses, Wastes };

double total_mass(const SelectedVsTrue& verdicts) {
  double sum = 0;
  for (const KeyRank& key : verdicts.by_true_rank) sum += key.mass;
  return sum;
}

class SelectedVsTruePanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto slot = workspace.selection().shown;
    widgets::figure_head_ui(context.palette, context.figure, "Selected versus true keys",
                            method_caption(workspace, slot), place_caption(workspace),
                            method_chips(context, slot));
    const auto verdicts = workspace.selected_vs_true(slot);
    if (!ready_ui(context, verdicts, "Ranking the keys by true attention mass")) return;
    if (verdicts->num_candidates == 0) {
      widgets::empty_ui(context.palette, "This chunk is the first one: no key lies before it.");
      return;
    }
    method_note_ui(context, slot);
    numbers_ui(context, *verdicts);
    if (context.figure) {
      const float width = ImGui::GetContentRegionAvail().x;
      ImGui::BeginChild("bars", {width * 0.58F, 0});
      legend(context);
      bars_ui(context, *verdicts, ImGui::GetContentRegionAvail());
      ImGui::EndChild();
      ImGui::SameLine();
      ImGui::BeginChild("table", {0, 0});
      table_ui(context, *verdicts);
      ImGui::EndChild();
      return;
    }
    legend(context);
    const float height =
        std::clamp(ImGui::GetContentRegionAvail().y * 0.4F, widgets::em(7), widgets::em(15));
    bars_ui(context, *verdicts, {-1, height});
    filter_ui();
    table_ui(context, *verdicts);
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"true_rank", "position", "token", "mass", "mass_share", "selected", "verdict"},
                {}};
    const auto verdicts = workspace.selected_vs_true(workspace.selection().shown);
    if (!verdicts) return table;
    const double all = total_mass(*verdicts);
    for (const KeyRank& key : verdicts->by_true_rank) {
      const bool selected = key.verdict == KeyVerdict::Hit || key.verdict == KeyVerdict::Waste;
      table.rows.push_back({cell(std::int64_t{key.true_rank}), cell(std::int64_t{key.position}),
                            workspace.ready()->token_label[static_cast<std::size_t>(key.position)],
                            cell(key.mass), cell(all > 0 ? key.mass / all : 0),
                            selected ? "1" : "0", widgets::label_of(key.verdict)});
    }
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    return problem_of(workspace.selected_vs_true(workspace.selection().shown));
  }

 private:
  static void legend(DrawContext& context) {
    widgets::legend_ui(context.palette, {{"hit: kept and true", context.palette.hit},
                                         {"miss: true, not kept", context.palette.miss},
                                         {"waste: kept, not true", context.palette.waste}});
  }

  static void numbers_ui(DrawContext& context, const SelectedVsTrue& v) {
    struct Item {
      std::string value, name;
      ImU32 color;
    };
    const auto& p = context.palette;
    std::vector<Item> items{
        {fmt::format("{:.1f} %", v.mass_recall * 100), "mass recall", p.text},
        {fmt::format("{:.1f} %", v.topk_overlap * 100), "top-k overlap", p.text},
        {format_count(v.hits), "hits", p.hit},
        {format_count(v.misses), "misses", p.miss},
        {format_count(v.wastes), "wastes",
         p.kind == widgets::ThemeKind::Dark ? p.waste : p.warning},
        {fmt::format("{:.1f} %", v.missed_mass * 100), "mass missed", p.miss}};
    if (!context.figure) items.pop_back();  // the complement of the recall: room is short there
    const float column =
        std::max(widgets::em(4.6F), std::min(widgets::em(9), ImGui::GetContentRegionAvail().x / 6));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const int per_line = std::max(1, static_cast<int>(ImGui::GetContentRegionAvail().x / column));
    const float line = widgets::em(2.75F);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const ImVec2 where(at.x + column * static_cast<float>(i % static_cast<std::size_t>(per_line)),
                         at.y + line * static_cast<float>(i / static_cast<std::size_t>(per_line)));
      ImGui::SetCursorScreenPos(where);
      {
        const widgets::FontScope strong(widgets::fonts().strong, 1.2F);
        widgets::text_colored(items[i].color, items[i].value);
      }
      ImGui::SetCursorScreenPos({where.x, where.y + widgets::em(1.45F)});
      const widgets::FontScope small(widgets::fonts().body, 0.85F);
      widgets::text_colored(p.muted, items[i].name);
    }
    const auto lines = (items.size() + static_cast<std::size_t>(per_line) - 1) /
                       static_cast<std::size_t>(per_line);
    ImGui::SetCursorScreenPos({at.x, at.y + line * static_cast<float>(lines)});
    ImGui::Dummy({0, 0});
  }

  // Mass by true rank as bars, on a log axis: heads and tails of the distribution both show.
  static void bars_ui(DrawContext& context, const SelectedVsTrue& v, ImVec2 size) {
    const double all = total_mass(v);
    const auto kept = static_cast<std::int64_t>(v.hits + v.wastes);
    const auto num_bars = static_cast<int>(std::min<std::size_t>(
        v.by_true_rank.size(),
        std::clamp<std::size_t>(static_cast<std::size_t>(kept * 5 / 4), 24, 4000)));
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    const TickRoom room;
    if (!ImPlot::BeginPlot("##bars", size, kFlags)) return;
    ImPlot::SetupAxes("key, by true rank", "share of mass",
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
    double top = 1e-9, bottom = 1;
    for (int i = 0; i < num_bars; ++i) {
      const double share = v.by_true_rank[static_cast<std::size_t>(i)].mass / std::max(all, 1e-300);
      top = std::max(top, share);
      if (share > 0) bottom = std::min(bottom, share);
    }
    bottom = std::max(bottom * 0.6, top * 1e-6);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxisLimits(ImAxis_Y1, bottom, top * 1.6, ImPlotCond_Always);
    ImPlot::SetupAxisLimits(ImAxis_X1, 0, num_bars + 1,
                            context.figure ? ImPlotCond_Always : ImPlotCond_Once);
    ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0,
                                       static_cast<double>(v.by_true_rank.size()) + 1);
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupFinish();
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const auto span = context.workspace.watched_span();
    ImPlot::PushPlotClipRect();
    const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(limits.X.Min) - 1));
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(v.by_true_rank.size()),
                                             static_cast<std::int64_t>(limits.X.Max) + 1);
    const float base = ImPlot::PlotToPixels(0, bottom).y;
    for (std::int64_t i = first; i < last; ++i) {
      const KeyRank& key = v.by_true_rank[static_cast<std::size_t>(i)];
      const double share = std::max(key.mass / std::max(all, 1e-300), bottom);
      const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(i) + 0.6, share);
      const float right =
          std::max(ImPlot::PlotToPixels(static_cast<double>(i) + 1.4, share).x, from.x + 1);
      ImU32 color = widgets::color_of(context.palette, key.verdict);
      if (key.verdict == KeyVerdict::Neither) color = context.palette.line;
      draw->AddRectFilled(from, {right, base}, color);
      if (span && key.position >= span->begin && key.position < span->end) {
        const float middle = (from.x + right) / 2, tip = from.y - widgets::em(0.15F),
                    half = widgets::em(0.3F);
        draw->AddTriangleFilled({middle - half, tip - half * 1.5F},
                                {middle + half, tip - half * 1.5F}, {middle, tip},
                                context.palette.text);
      }
    }
    // As many true keys as the method kept: left of the line they should all be hits.
    const float cut = ImPlot::PlotToPixels(static_cast<double>(kept) + 0.5, top).x;
    draw->AddLine({cut, ImPlot::GetPlotPos().y}, {cut, base}, context.palette.muted, 1.0F);
    const std::string text = fmt::format("{} kept", format_count(kept));
    const float width = ImGui::CalcTextSize(text.c_str()).x + widgets::em(0.4F);
    const bool fits = cut + width < ImPlot::GetPlotPos().x + ImPlot::GetPlotSize().x;
    draw->AddText(
        {fits ? cut + widgets::em(0.4F) : cut - width, ImPlot::GetPlotPos().y + widgets::em(0.2F)},
        context.palette.muted, text.c_str());
    if (span) {
      const float right = ImPlot::GetPlotPos().x + ImPlot::GetPlotSize().x - widgets::em(0.5F);
      const float left = right - ImGui::CalcTextSize(span->name.c_str()).x;
      const float top_edge = ImPlot::GetPlotPos().y + widgets::em(1.5F);
      draw->AddText({left, top_edge}, context.palette.text, span->name.c_str());
      const ImVec2 mark(left - widgets::em(0.6F), top_edge + widgets::em(0.85F));
      draw->AddTriangleFilled({mark.x - widgets::em(0.3F), mark.y - widgets::em(0.45F)},
                              {mark.x + widgets::em(0.3F), mark.y - widgets::em(0.45F)}, mark,
                              context.palette.text);
    }
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, v, all);
    ImPlot::EndPlot();
  }

  static void point_at(DrawContext& context, const SelectedVsTrue& v, double all) {
    const auto rank = static_cast<std::int64_t>(std::llround(ImPlot::GetPlotMousePos().x)) - 1;
    if (rank < 0 || rank >= static_cast<std::int64_t>(v.by_true_rank.size())) return;
    const KeyRank& key = v.by_true_rank[static_cast<std::size_t>(rank)];
    ImGui::SetTooltip("true rank %d of %lld\nkey %s\nmass %.6g (%.3f %% of the past)\n%s",
                      key.true_rank + 1, static_cast<long long>(v.num_candidates),
                      token_line(context.workspace, key.position).c_str(), key.mass,
                      100 * key.mass / std::max(all, 1e-300), widgets::label_of(key.verdict));
    if (plot_clicked()) context.workspace.set_key_span(key.position, key.position + 1);
  }

  void filter_ui() {
    const auto choose = [&](const char* label, Filter filter) {
      if (ImGui::RadioButton(label, filter_ == filter)) filter_ = filter;
      ImGui::SameLine();
    };
    choose("top keys", Filter::TopKeys);
    choose("misses", Filter::Misses);
    choose("wastes", Filter::Wastes);
    ImGui::NewLine();
  }

  void table_ui(DrawContext& context, const SelectedVsTrue& v) {
    auto& workspace = context.workspace;
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < v.by_true_rank.size(); ++i) {
      const KeyVerdict verdict = v.by_true_rank[i].verdict;
      if (context.figure || filter_ == Filter::TopKeys ||
          (filter_ == Filter::Misses && verdict == KeyVerdict::Miss) ||
          (filter_ == Filter::Wastes && verdict == KeyVerdict::Waste))
        shown.push_back(i);
    }
    constexpr ImGuiTableFlags kFlags =
        ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
        ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
    if (!ImGui::BeginTable("##keys", 5, kFlags)) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn("rank", ImGuiTableColumnFlags_WidthStretch, 0.7F);
    ImGui::TableSetupColumn("key", ImGuiTableColumnFlags_WidthStretch, 1.0F);
    ImGui::TableSetupColumn("token", ImGuiTableColumnFlags_WidthStretch, 2.0F);
    ImGui::TableSetupColumn("mass", ImGuiTableColumnFlags_WidthStretch, 1.1F);
    ImGui::TableSetupColumn("fate", ImGuiTableColumnFlags_WidthStretch, 1.1F);
    ImGui::TableHeadersRow();
    const double all = total_mass(v);
    const auto span = workspace.watched_span();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(shown.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const KeyRank& key = v.by_true_rank[shown[static_cast<std::size_t>(i)]];
        const bool watched = span && key.position >= span->begin && key.position < span->end;
        ImGui::TableNextRow();
        if (watched)
          ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1,
                                 widgets::with_alpha(context.palette.text, 0.14F));
        ImGui::TableNextColumn();
        ImGui::PushID(i);
        const bool selected = workspace.selection().key_begin == key.position;
        if (ImGui::Selectable(format_count(key.true_rank + 1).c_str(), selected,
                              ImGuiSelectableFlags_SpanAllColumns))
          workspace.set_key_span(key.position, key.position + 1);
        ImGui::PopID();
        ImGui::TableNextColumn();
        widgets::text_colored(context.palette.text, format_count(key.position));
        ImGui::TableNextColumn();
        {
          const widgets::FontScope mono(widgets::fonts().mono, 0.95F);
          widgets::text_colored(
              context.palette.text,
              workspace.ready()->token_label[static_cast<std::size_t>(key.position)]);
        }
        ImGui::TableNextColumn();
        widgets::text_colored(context.palette.muted,
                              fmt::format("{:.3g} %", 100 * key.mass / std::max(all, 1e-300)));
        ImGui::TableNextColumn();
        fate_ui(context, key.verdict);
      }
    ImGui::EndTable();
  }

  static void fate_ui(DrawContext& context, KeyVerdict verdict) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float box = widgets::em(0.7F);
    const float top = at.y + (ImGui::GetTextLineHeight() - box) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, top}, {at.x + box, top + box},
                                              widgets::color_of(context.palette, verdict), 2);
    ImGui::SetCursorScreenPos({at.x + box + widgets::em(0.4F), at.y});
    widgets::text_colored(context.palette.text, widgets::label_of(verdict));
  }

  Filter filter_ = Filter::TopKeys;
};

}  // namespace

std::unique_ptr<Panel> make_selected_vs_true_panel() {
  return std::make_unique<SelectedVsTruePanel>();
}

}  // namespace kvloupe::panels
