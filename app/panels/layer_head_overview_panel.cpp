// layer_head_overview: one number for every layer and head, to see in one look where a method, or
// its premise, fails. A click goes there.
#include "app/panels/view_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::Overview;
using analysis::OverviewMetric;

struct MetricLook {
  OverviewMetric metric;
  const char* title;
  const char* unit;
  const char* meaning;
  bool higher_is_better;
};
constexpr std::array<MetricLook, 5> kLooks{{
    {OverviewMetric::MassRecall, "Mass recall", "share of attention mass kept",
     "The share of true attention mass on past keys that the kept keys carry.", true},
    {OverviewMetric::TopkOverlap, "Top-k overlap", "share of kept keys that are true top keys",
     "Of the keys kept, the share that is among as many true top keys.", true},
    {OverviewMetric::OutputError, "Output error", "relative error of the head's output",
     "How far the attention output moves when only the kept keys are attended to.", false},
    {OverviewMetric::RelevancePearson, "Pearson r of S_q", "r of S_q against largest attention",
     "Where r is above 0.5, queries far from the mean query are the ones that attend sharply: "
     "QuoKA's premise holds.",
     true},
    {OverviewMetric::Entropy, "Entropy", "mean row entropy in nats",
     "How spread the head's attention is.", false},
}};

const MetricLook& look_of(OverviewMetric metric) {
  for (const MetricLook& look : kLooks)
    if (look.metric == metric) return look;
  return kLooks.front();
}

struct Range {
  double low = 0, high = 1;
};

// r has fixed ends; the others adapt, so that differences show.
Range range_of(const Overview& overview) {
  if (overview.metric == OverviewMetric::RelevancePearson) return {-1, 1};
  Range range{1e30, -1e30};
  for (const float value : overview.values.values) {
    if (std::isnan(value)) continue;
    range.low = std::min(range.low, double{value});
    range.high = std::max(range.high, double{value});
  }
  if (range.low > range.high) return {0, 1};
  if (overview.metric == OverviewMetric::MassRecall ||
      overview.metric == OverviewMetric::TopkOverlap) {
    range.low = std::floor(range.low * 10) / 10;
    range.high = 1;
  } else {
    range.low = 0;
  }
  if (range.high <= range.low) range.high = range.low + 1;
  return range;
}

class OverviewPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto& s = workspace.selection();
    const MetricLook& look = look_of(workspace.overview_metric());
    const bool of_method = analysis::needs_method(s.metric);
    widgets::figure_head_ui(context.palette, context.figure,
                            fmt::format("{} by layer and head", look.title),
                            of_method ? s.choice(s.shown).spec : "", place_caption(workspace),
                            of_method ? method_chips(context, s.shown) : trace_chips(context));
    if (!context.figure) controls_ui(context);
    const auto overview = workspace.overview();
    if (!ready_ui(context, overview, fmt::format("Measuring {} in all layers", look.title))) return;
    const MetricLook& shown = look_of(overview->metric);
    const Range range = range_of(*overview);
    note_ui(context, shown);
    scale_ui(context, *overview, shown, range);
    if (context.figure) {
      const float side = widgets::em(19);
      ImGui::BeginChild("grid", {ImGui::GetContentRegionAvail().x - side, 0});
      grid_ui(context, *overview, shown, range);
      ImGui::EndChild();
      ImGui::SameLine();
      ImGui::BeginChild("extremes", {0, 0});
      extremes_ui(context, *overview, shown);
      ImGui::EndChild();
    } else {
      grid_ui(context, *overview, shown, range);
    }
  }

  Table table(state::Workspace& workspace) override {
    const auto overview = workspace.overview();
    if (!overview) return {};
    Table table{{"layer", overview->per_kv_head ? "kv_head" : "q_head",
                 analysis::name_of(overview->metric)},
                {}};
    for (std::int64_t r = 0; r < overview->values.rows; ++r)
      for (std::int64_t c = 0; c < overview->values.cols; ++c)
        table.rows.push_back({cell(std::int64_t{overview->layers[static_cast<std::size_t>(r)]}),
                              cell(c), cell(double{overview->values.at(r, c)})});
    return table;
  }

  Array array(state::Workspace& workspace) override {
    const auto overview = workspace.overview();
    return overview ? array_of("<f4", {overview->values.rows, overview->values.cols},
                               overview->values.values)
                    : Array{};
  }

  std::string problem(state::Workspace& workspace) override {
    return problem_of(workspace.overview());
  }

 private:
  static void note_ui(DrawContext& context, const MetricLook& shown) {
    auto& workspace = context.workspace;
    const auto& s = workspace.selection();
    if (shown.metric != s.metric)
      widgets::text_wrapped(
          context.palette.warning,
          fmt::format("{} cuts lanes and keeps every key: shown is not the {} but what the cut "
                      "lanes cost.",
                      workspace.facts(s.shown)->id, analysis::name_of(s.metric)));
    else if (analysis::needs_method(shown.metric))
      method_note_ui(context, s.shown);
  }

  static void controls_ui(DrawContext& context) {
    auto& workspace = context.workspace;
    const auto& s = workspace.selection();
    ImGui::SetNextItemWidth(std::min(widgets::em(11), ImGui::GetContentRegionAvail().x));
    if (ImGui::BeginCombo("##metric", look_of(s.metric).title)) {
      for (const MetricLook& look : kLooks) {
        if (ImGui::Selectable(look.title, look.metric == s.metric))
          workspace.change("metric", [&](state::Selection& next) { next.metric = look.metric; });
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", look.meaning);
      }
      ImGui::EndCombo();
    }
    if (!analysis::needs_method(s.metric)) return;
    ImGui::SameLine();
    bool all = s.overview_all_chunks;
    if (ImGui::Checkbox("all chunks", &all))
      workspace.change("metric", [&](state::Selection& next) { next.overview_all_chunks = all; });
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("Mean over all chunks that selected, instead of the current chunk");
  }

  static ImU32 color_at(const widgets::Palette& palette, const MetricLook& look, const Range& range,
                        double value) {
    if (std::isnan(value)) return palette.raised;
    const double t = std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
    if (look.metric == OverviewMetric::Entropy)
      return widgets::sequential_color(palette, 0.08 + 0.92 * t);
    return widgets::diverging_color(palette, look.higher_is_better ? t : 1 - t);
  }

  static ImU32 rising(const widgets::Palette& palette, double t) {
    return widgets::diverging_color(palette, t);
  }
  static ImU32 falling(const widgets::Palette& palette, double t) {
    return widgets::diverging_color(palette, 1 - t);
  }

  static void scale_ui(DrawContext& context, const Overview& overview, const MetricLook& look,
                       const Range& range) {
    auto* color = look.metric == OverviewMetric::Entropy ? widgets::sequential_color
                  : look.higher_is_better                ? rising
                                                         : falling;
    const auto& s = context.workspace.selection();
    const bool mean = analysis::needs_method(overview.metric) && s.overview_all_chunks;
    widgets::color_scale_ui(
        context.palette, color, fmt::format("{:.2g}", range.low), fmt::format("{:.2g}", range.high),
        context.figure ? fmt::format("{}{}", look.unit, mean ? ", mean over chunks" : "") : "",
        widgets::em(7));
    if (look.metric == OverviewMetric::RelevancePearson) {
      int above = 0, all = 0;
      for (const float value : overview.values.values) {
        if (std::isnan(value)) continue;
        ++all;
        above += value > 0.5F;
      }
      if (context.figure) ImGui::SameLine(0, widgets::em(1));
      widgets::text_colored(context.palette.text,
                            fmt::format("{} of {} heads above 0.5", above, all));
    }
    const auto& values = overview.values.values;
    if (analysis::needs_method(overview.metric) &&
        std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); })) {
      if (context.figure) ImGui::SameLine(0, widgets::em(1));
      widgets::text_colored(context.palette.muted, "struck out: dense, everything is kept");
    }
    ImGui::Dummy({0, widgets::em(0.2F)});
  }

  // Cells; layers run down in a tall view and across in a wide one.
  static void grid_ui(DrawContext& context, const Overview& overview, const MetricLook& look,
                      const Range& range) {
    auto& workspace = context.workspace;
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool wide = room.x > room.y * 1.2F;
    const auto num_layers = static_cast<int>(overview.values.rows);
    const auto num_heads = static_cast<int>(overview.values.cols);
    if (num_layers == 0 || num_heads == 0) return;
    const widgets::FontScope small(widgets::fonts().body, context.figure ? 0.9F : 0.82F);
    const ImVec2 margin(widgets::em(2.2F), widgets::em(2.9F));
    const float cell_w =
        std::min((room.x - margin.x - 2) / static_cast<float>(wide ? num_layers : num_heads),
                 widgets::em(6));
    const float cell_h =
        std::min((room.y - margin.y - 2) / static_cast<float>(wide ? num_heads : num_layers),
                 widgets::em(context.figure ? 14.0F : 4.6F));
    if (cell_w < 2 || cell_h < 2) return;
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const ImVec2 at(origin.x + margin.x, origin.y + margin.y);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const char* head_word = overview.per_kv_head ? "KV head" : "query head";
    draw->AddText({at.x, origin.y}, context.palette.muted,
                  wide ? "layer \u2192" : fmt::format("{} \u2192", head_word).c_str());
    draw->AddText({origin.x, at.y - widgets::em(1.35F)}, context.palette.muted,
                  wide ? overview.per_kv_head ? "KV" : "q" : "layer");
    axis_labels(draw, context, wide, num_layers, num_heads, overview, at, cell_w, cell_h);

    const int here_head = overview.per_kv_head ? workspace.kv_head() : workspace.selection().q_head;
    ImRectLike current{};
    for (int l = 0; l < num_layers; ++l)
      for (int h = 0; h < num_heads; ++h) {
        const double value = overview.values.at(l, h);
        const float x = at.x + cell_w * static_cast<float>(wide ? l : h);
        const float y = at.y + cell_h * static_cast<float>(wide ? h : l);
        const ImVec2 from(x + 0.5F, y + 0.5F), to(x + cell_w - 0.5F, y + cell_h - 0.5F);
        const ImU32 color = color_at(context.palette, look, range, value);
        draw->AddRectFilled(from, to, color, std::min(3.0F, cell_h * 0.2F));
        if (std::isnan(value)) draw->AddLine({from.x, to.y}, {to.x, from.y}, context.palette.faint);
        if (look.metric == OverviewMetric::RelevancePearson && value > 0.5)
          draw->AddRect({from.x + 1, from.y + 1}, {to.x - 1, to.y - 1}, context.palette.text, 2, 0,
                        1.5F);
        number_in(draw, value, color, from, to);
        if (overview.layers[static_cast<std::size_t>(l)] == workspace.selection().layer &&
            h == here_head)
          current = {from, to};
      }
    draw->AddRect({current.from.x - 1.5F, current.from.y - 1.5F},
                  {current.to.x + 1.5F, current.to.y + 1.5F}, context.palette.text, 3, 0,
                  std::max(2.0F, widgets::em(0.16F)));

    ImGui::SetCursorScreenPos(at);
    const ImVec2 extent(cell_w * static_cast<float>(wide ? num_layers : num_heads),
                        cell_h * static_cast<float>(wide ? num_heads : num_layers));
    const bool pressed = ImGui::InvisibleButton("##cells", extent);
    if (!ImGui::IsItemHovered() || context.figure) return;
    const ImVec2 mouse = ImGui::GetMousePos();
    const int across = std::clamp(static_cast<int>((mouse.x - at.x) / cell_w), 0,
                                  (wide ? num_layers : num_heads) - 1);
    const int down = std::clamp(static_cast<int>((mouse.y - at.y) / cell_h), 0,
                                (wide ? num_heads : num_layers) - 1);
    const int l = wide ? across : down, h = wide ? down : across;
    const int layer = overview.layers[static_cast<std::size_t>(l)];
    ImGui::SetTooltip("layer %d, %s %d\n%s %.4f\n%s", layer, head_word, h, look.title,
                      static_cast<double>(overview.values.at(l, h)), look.meaning);
    if (pressed) go(workspace, overview, layer, h);
  }

  struct ImRectLike {
    ImVec2 from, to;
  };

  static void go(state::Workspace& workspace, const Overview& overview, int layer, int head) {
    workspace.change("", [&](state::Selection& s) {
      s.layer = layer;
      const int group = workspace.info().model.gqa_group_size();
      if (!overview.per_kv_head)
        s.q_head = head;
      else if (s.q_head / group != head)
        s.q_head = head * group;
    });
  }

  static void axis_labels(ImDrawList* draw, DrawContext& context, bool wide, int num_layers,
                          int num_heads, const Overview& overview, ImVec2 at, float cell_w,
                          float cell_h) {
    const float line = ImGui::GetTextLineHeight();
    const int across = wide ? num_layers : num_heads, down = wide ? num_heads : num_layers;
    const auto text_of = [&](bool is_layer, int i) {
      return std::to_string(is_layer ? overview.layers[static_cast<std::size_t>(i)] : i);
    };
    const int step_x = std::max(1, static_cast<int>(std::ceil(widgets::em(1.5F) / cell_w)));
    const int step_y = std::max(1, static_cast<int>(std::ceil(line / cell_h)));
    for (int i = 0; i < across; i += step_x) {
      const std::string text = text_of(wide, i);
      const float width = ImGui::CalcTextSize(text.c_str()).x;
      draw->AddText({at.x + cell_w * (static_cast<float>(i) + 0.5F) - width / 2,
                     at.y - line - widgets::em(0.2F)},
                    context.palette.muted, text.c_str());
    }
    for (int i = 0; i < down; i += step_y) {
      const std::string text = text_of(!wide, i);
      const float width = ImGui::CalcTextSize(text.c_str()).x;
      draw->AddText({at.x - width - widgets::em(0.4F),
                     at.y + cell_h * (static_cast<float>(i) + 0.5F) - line / 2},
                    context.palette.muted, text.c_str());
    }
  }

  static void number_in(ImDrawList* draw, double value, ImU32 color, ImVec2 from, ImVec2 to) {
    if (std::isnan(value)) return;
    const std::string text = fmt::format("{:.2f}", value);
    const ImVec2 size = ImGui::CalcTextSize(text.c_str());
    if (size.x > to.x - from.x - 2 || size.y > to.y - from.y) return;
    draw->AddText({(from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2},
                  widgets::ink_on(color), text.c_str());
  }

  static void extremes_ui(DrawContext& context, const Overview& overview, const MetricLook& look) {
    struct Item {
      int layer, head;
      double value;
    };
    std::vector<Item> items;
    for (std::int64_t l = 0; l < overview.values.rows; ++l)
      for (std::int64_t h = 0; h < overview.values.cols; ++h)
        if (const double value = overview.values.at(l, h); !std::isnan(value))
          items.push_back(
              {overview.layers[static_cast<std::size_t>(l)], static_cast<int>(h), value});
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return look.higher_is_better ? a.value < b.value : a.value > b.value;
    });
    const Range range = range_of(overview);
    const auto list = [&](const char* heading, bool from_end) {
      {
        const widgets::FontScope strong(widgets::fonts().strong, 1.0F);
        widgets::text_colored(context.palette.text, heading);
      }
      for (std::size_t i = 0; i < std::min<std::size_t>(9, items.size()); ++i) {
        const Item& item = from_end ? items[items.size() - 1 - i] : items[i];
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float box = widgets::em(0.9F);
        ImGui::GetWindowDrawList()->AddRectFilled(
            {at.x, at.y + 2}, {at.x + box, at.y + 2 + box},
            color_at(context.palette, look, range, item.value), 3);
        ImGui::SetCursorScreenPos({at.x + box + widgets::em(0.5F), at.y});
        widgets::text_colored(context.palette.text,
                              fmt::format("layer {}, {} {}", item.layer,
                                          overview.per_kv_head ? "KV head" : "q head", item.head));
        ImGui::SameLine(widgets::em(13));
        const widgets::FontScope mono(widgets::fonts().mono, 0.95F);
        widgets::text_colored(context.palette.muted, fmt::format("{:.3f}", item.value));
      }
      ImGui::Dummy({0, widgets::em(0.6F)});
    };
    list(look.metric == OverviewMetric::Entropy ? "Most spread" : "Look here first", false);
    list(look.metric == OverviewMetric::Entropy ? "Sharpest" : "Doing best", true);
    widgets::text_wrapped(context.palette.muted, look.meaning);
  }
};

}  // namespace

std::unique_ptr<Panel> make_layer_head_overview_panel() {
  return std::make_unique<OverviewPanel>();
}

}  // namespace kvloupe::panels
