// selected_vs_true: the keys that attention truly weighs, largest first, coloured by whether the
// method kept them; the table names each with its text.
#include "app/panels/map_plot.h"
#include "app/state/labels.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;
using state::SelectedVsTrueQuestion;
using Verdicts = state::Result<SelectedVsTrueQuestion>;
using Span = std::optional<trace::TokenSpan>;

class SelectedVsTruePanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    const state::Selection& s = context.workspace.selection();
    const SelectedVsTrueQuestion question{s.place, context.workspace.method()};
    const Verdicts result = shown_.ask(context.workspace, question);
    const char* title = "Selected versus true keys";
    if (!result) {
      method_head_ui(context, title, question.place,
                     state::facts_of(question.place, question.method), s.shown);
      ready_ui(context, result, "Ranking the keys by true attention mass");
      return;
    }
    method_head_ui(context, title, result.question.place, result->facts, s.shown);
    ready_ui(context, result, "");
    if (result->cell.num_candidates == 0) {
      widgets::empty_ui(context.palette, "This chunk is the first one: no key lies before it.");
      return;
    }
    method_note_ui(context, result.question.place, result->facts);
    numbers_ui(context, result->cell);
    if (context.figure)
      figure_ui(context, result);
    else
      window_ui(context, result);
  }

 private:
  void figure_ui(DrawContext& context, const Verdicts& result) {
    const float width = ImGui::GetContentRegionAvail().x;
    ImGui::BeginChild("bars", {std::min(width * 0.58F, width - widgets::em(23)), 0});
    legend(context, result);
    bars_ui(context, result, ImGui::GetContentRegionAvail());
    ImGui::EndChild();
    ImGui::SameLine();
    ImGui::BeginChild("table", {0, 0});
    table_ui(context, result);
    ImGui::EndChild();
  }

  void window_ui(DrawContext& context, const Verdicts& result) {
    legend(context, result);
    const float height =
        std::clamp(ImGui::GetContentRegionAvail().y * 0.4F, least_plot_height(), widgets::em(15));
    bars_ui(context, result, {-1, height});
    filter_ui(context);
    table_ui(context, result);
  }

  // The marks above the bars are named here: a name among them would lie over some.
  static void legend(DrawContext& context, const Verdicts& result) {
    std::vector<widgets::LegendItem> items{{"hit: kept and true", context.palette.hit},
                                           {"miss: true, not kept", context.palette.miss},
                                           {"waste: kept, not true", context.palette.waste}};
    if (const Span span = state::watched_span(result.question.place))
      items.push_back({state::readable_name(span->name), context.palette.text,
                       widgets::LegendItem::Shape::Triangle});
    widgets::legend_ui(context.palette, items);
  }

  static float item_width(const std::string& value, const std::string& name) {
    const auto width = [](const std::string& text, widgets::Type type) {
      const widgets::FontScope scope(type);
      return ImGui::CalcTextSize(text.c_str()).x;
    };
    return std::max(width(value, widgets::Type::Title), width(name, widgets::Type::Caption));
  }

  // A number above its name.
  static void item_ui(ImVec2 at, const std::string& value, const std::string& name, ImU32 color,
                      ImU32 name_color) {
    ImGui::SetCursorScreenPos(at);
    {
      const widgets::FontScope strong(widgets::Type::Title);
      widgets::text_colored(color, value);
    }
    ImGui::SetCursorScreenPos({at.x, at.y + widgets::em(1.45F)});
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_colored(name_color, name);
  }

  static void numbers_ui(DrawContext& context, const analysis::SelectedVsTrue& v) {
    struct Item {
      std::string value, name;
      ImU32 color;
    };
    const auto& p = context.palette;
    std::vector<Item> items{{share_text(v.mass_recall), "mass recall", p.text},
                            {share_text(v.topk_overlap), "top-k overlap", p.text},
                            {format_count(v.hits), v.hits == 1 ? "hit" : "hits", p.hit},
                            {format_count(v.misses), v.misses == 1 ? "miss" : "misses", p.miss},
                            {format_count(v.wastes), v.wastes == 1 ? "waste" : "wastes",
                             p.kind == widgets::ThemeKind::Dark ? p.waste : p.warning},
                            {share_text(v.missed_mass), "mass missed", p.miss}};
    if (!context.figure) items.pop_back();  // the complement of the recall: room is short there
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float room = ImGui::GetContentRegionAvail().x;
    const float even = std::min(widgets::em(9), room / static_cast<float>(items.size()));
    ImVec2 where = at;
    for (const Item& item : items) {
      const float width = item_width(item.value, item.name);
      if (where.x > at.x && where.x + width > at.x + room)
        where = {at.x, where.y + widgets::em(2.75F)};
      item_ui(where, item.value, item.name, item.color, p.muted);
      where.x += std::max(even, width + widgets::em(0.8F));
    }
    ImGui::SetCursorScreenPos({at.x, where.y + widgets::em(2.75F)});
    ImGui::Dummy({0, 0});
  }

  // Mass by true rank as bars, on a log axis: heads and tails of the distribution both show.
  void bars_ui(DrawContext& context, const Verdicts& result, ImVec2 size) {
    const std::vector<KeyRank>& keys = result->cell.by_true_rank;
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    const TickRoom room;
    if (!ImPlot::BeginPlot("##bars", size, kFlags)) return;
    const double top = keys.empty() ? 1 : std::max(1e-9, result->share_of(keys.front()));
    const double bottom = std::max(result->least_share * 0.6, top * 1e-6);
    const auto num_bars = std::clamp<std::int64_t>(result->kept() * 5 / 4, 24, 4000);
    ImPlot::SetupAxes("key, by true rank", fitting("share of mass", "share", size.y),
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight,
                      ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    // Room for the marks above the bars.
    const double above = std::max(1.6, std::pow(top / bottom, 0.15));
    ImPlot::SetupAxisLimits(ImAxis_Y1, bottom, top * above, ImPlotCond_Always);
    const auto all = static_cast<double>(keys.size());
    ImPlot::SetupAxisLimits(ImAxis_X1, 0, std::min(all, static_cast<double>(num_bars)) + 1,
                            fit_.condition(result.key));
    ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, all + 1);
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupFinish();
    const Span span = state::watched_span(result.question.place);
    ImPlot::PushPlotClipRect();
    draw_bars(context, result, bottom, span);
    cut_ui(context, result->kept());
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, result);
    ImPlot::EndPlot();
  }

  static void draw_bars(DrawContext& context, const Verdicts& result, double bottom,
                        const Span& span) {
    const std::vector<KeyRank>& keys = result->cell.by_true_rank;
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(limits.X.Min) - 1));
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(keys.size()),
                                             static_cast<std::int64_t>(limits.X.Max) + 1);
    const float base = ImPlot::PlotToPixels(0, bottom).y;
    for (std::int64_t i = first; i < last; ++i) {
      const KeyRank& key = keys[static_cast<std::size_t>(i)];
      const double share = std::max(result->share_of(key), bottom);
      const ImVec2 from = ImPlot::PlotToPixels(static_cast<double>(i) + 0.6, share);
      const float right =
          std::max(ImPlot::PlotToPixels(static_cast<double>(i) + 1.4, share).x, from.x + 1);
      ImU32 color = widgets::color_of(context.palette, key.verdict);
      if (key.verdict == KeyVerdict::Neither) color = context.palette.line;
      draw->AddRectFilled(from, {right, base}, color);
      if (!span || key.position < span->begin || key.position >= span->end) continue;
      const float middle = (from.x + right) / 2, tip = from.y - widgets::em(0.15F),
                  half = widgets::em(0.3F);
      draw->AddTriangleFilled({middle - half, tip - half * 1.5F},
                              {middle + half, tip - half * 1.5F}, {middle, tip},
                              context.palette.text);
    }
  }

  // As many true keys as the method kept: left of the line they should all be hits.
  static void cut_ui(DrawContext& context, std::int64_t kept) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const ImVec2 at = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
    const float cut =
        ImPlot::PlotToPixels(static_cast<double>(kept) + 0.5, ImPlot::GetPlotLimits().Y.Max).x;
    draw->AddLine({cut, at.y}, {cut, at.y + size.y}, context.palette.muted, 1.0F);
    const std::string text = fmt::format("{} kept", format_count(kept));
    const float width = ImGui::CalcTextSize(text.c_str()).x + widgets::em(0.4F);
    const bool fits = cut + width < at.x + size.x;
    draw->AddText({fits ? cut + widgets::em(0.4F) : cut - width, at.y + widgets::em(0.2F)},
                  context.palette.muted, text.c_str());
  }

  static void point_at(DrawContext& context, const Verdicts& result) {
    const auto rank = static_cast<std::int64_t>(std::llround(ImPlot::GetPlotMousePos().x)) - 1;
    const std::vector<KeyRank>& keys = result->cell.by_true_rank;
    if (rank < 0 || rank >= static_cast<std::int64_t>(keys.size())) return;
    const KeyRank& key = keys[static_cast<std::size_t>(rank)];
    context.workspace.pointer.at(result.question.place, key.position);
    widgets::tooltip("true rank %d of %lld\nkey %s\n%s of the past's mass (%.6g)\n%s",
                     key.true_rank + 1, static_cast<long long>(result->cell.num_candidates),
                     token_line(result.question.place, key.position).c_str(),
                     share_text(result->share_of(key)).c_str(), key.mass,
                     state::label_of(key.verdict));
    if (plot_clicked() && !result.stale)
      context.workspace.cursor.set_keys(key.position, key.position + 1);
  }

  static void filter_ui(DrawContext& context) {
    const std::string chosen = context.workspace.option("selected_vs_true", "filter");
    for (const auto& [value, label] : {std::pair{"all", "top keys"}, std::pair{"misses", "misses"},
                                       std::pair{"wastes", "wastes"}}) {
      if (ImGui::RadioButton(label, chosen == value))
        context.workspace.cursor.set_option("selected_vs_true.filter", value);
      ImGui::SameLine();
    }
    ImGui::NewLine();
  }

  static void table_ui(DrawContext& context, const Verdicts& result) {
    const std::string& filter = context.workspace.option("selected_vs_true", "filter");
    const std::vector<std::int32_t>* only = filter == "misses"   ? &result->misses
                                            : filter == "wastes" ? &result->wastes
                                                                 : nullptr;
    const std::vector<KeyRank>& keys = result->cell.by_true_rank;
    constexpr ImGuiTableFlags kFlags =
        ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
        ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
    const float rows =
        std::max(ImGui::GetContentRegionAvail().y, widgets::em(context.figure ? 0.0F : 9.0F));
    if (!ImGui::BeginTable("##keys", 5, kFlags, {0, rows})) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    constexpr std::array kColumns{std::pair{"rank", 0.9F}, std::pair{"key", 0.9F},
                                  std::pair{"token", 2.0F}, std::pair{"mass", 1.4F}};
    for (const auto& [name, width] : kColumns)
      ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthStretch, width);
    ImGui::TableSetupColumn("fate", ImGuiTableColumnFlags_WidthFixed,
                            widgets::em(1.1F) + ImGui::CalcTextSize("neither").x);
    ImGui::TableHeadersRow();
    const Span span = state::watched_span(result.question.place);
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(only != nullptr ? only->size() : keys.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const auto row = static_cast<std::size_t>(i);
        const KeyRank& key = keys[only != nullptr ? static_cast<std::size_t>((*only)[row]) : row];
        ImGui::PushID(i);
        row_ui(context, result, key, span);
        ImGui::PopID();
      }
    ImGui::EndTable();
  }

  static void row_ui(DrawContext& context, const Verdicts& result, const KeyRank& key,
                     const Span& span) {
    const state::Place& place = result.question.place;
    ImGui::TableNextRow();
    if (span && key.position >= span->begin && key.position < span->end)
      ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1,
                             widgets::with_alpha(context.palette.text, 0.14F));
    ImGui::TableNextColumn();
    if (ImGui::Selectable(format_count(key.true_rank + 1).c_str(), place.key_begin == key.position,
                          ImGuiSelectableFlags_SpanAllColumns) &&
        !result.stale)
      context.workspace.cursor.set_keys(key.position, key.position + 1);
    if (!context.figure && ImGui::IsItemHovered()) point_at_row(context, result, key);
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
    widgets::text_colored(context.palette.muted, share_text(result->share_of(key)));
    ImGui::TableNextColumn();
    fate_ui(context, key.verdict);
  }

  static void point_at_row(DrawContext& context, const Verdicts& result, const KeyRank& key) {
    const state::Place& place = result.question.place;
    const std::string share = share_text(result->share_of(key));
    const char* fate = state::label_of(key.verdict);
    context.workspace.pointer.at(
        {.words = fmt::format("key {}\ntrue rank {}, {} of the past's mass, {}",
                              token_line(place, key.position), key.true_rank + 1, share, fate),
         .row = fmt::format("{}\t{}\t{}\t{}\t{}", key.true_rank + 1, key.position,
                            place.trace->token_label[static_cast<std::size_t>(key.position)], share,
                            fate),
         .place = place,
         .key_begin = key.position,
         .key_end = key.position + 1});
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
  ContentFit fit_;
};

}  // namespace

std::unique_ptr<Panel> make_selected_vs_true_panel() {
  return std::make_unique<SelectedVsTruePanel>();
}

}  // namespace kvloupe::panels
