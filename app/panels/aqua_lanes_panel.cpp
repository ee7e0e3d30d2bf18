// aqua_lanes: the lanes that AQUA's queries use, what norm vectors lose with the lanes cut (by
// magnitude against the leading ones, in a basis fitted here against a calibrated one), what the
// scores lose, and from what length on it pays.
#include "app/panels/lane_plots.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::BasisLoss;
using analysis::LaneChoice;
using analysis::LaneReport;

std::string id_of(const std::string& spec) { return spec.substr(0, spec.find(':')); }

std::string lanes_text(const LaneReport& r) {
  return fmt::format("{} of {} lanes in each score", r.kept_lanes, r.head_dim);
}

// The curves in the basis of the method itself, where the matched one is fitted anyway.
const BasisLoss& own_basis(const LaneReport& r) {
  for (const BasisLoss& basis : r.bases)
    if (basis.note && basis.note->hash == r.basis.hash && basis.note->source == r.basis.source)
      return basis;
  return r.bases.front();
}

class AquaLanesPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto report = workspace.lane_report();
    widgets::figure_head_ui(context.palette, context.figure, "AQUA lanes",
                            report ? report->method : "", place_caption(workspace),
                            report ? chips(context, *report) : trace_chips(context));
    if (!ready_ui(context, report, "Rotating queries and keys")) return;
    note_ui(context, *report);
    finding_ui(context, *report);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool wide = room.x > widgets::em(52);
    const float height = std::max(room.y, widgets::em(wide ? 22.0F : 54.0F));
    const float left = wide ? room.x * 0.44F : room.x;
    ImGui::BeginChild("lanes", {left, wide ? height : height * 0.42F});
    use_ui(context, *report);
    ImGui::EndChild();
    if (wide) ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("losses", {0, wide ? height : height * 0.58F});
    losses_ui(context, *report);
    ImGui::EndChild();
  }

  Table table(state::Workspace& workspace) override {
    const auto report = workspace.lane_report();
    return report ? lane_table(*report) : Table{lane_columns(), {}};
  }

  Array array(state::Workspace& workspace) override {
    const auto report = workspace.lane_report();
    if (!report) return {};
    return array_of("<i4", {report->num_q_heads, report->head_dim}, report->counts);
  }

  std::string problem(state::Workspace& workspace) override {
    return problem_of(workspace.lane_report());
  }

 private:
  static std::vector<widgets::Chip> chips(DrawContext& context, const LaneReport& r) {
    auto chips = trace_chips(context);
    const std::string basis = r.basis.leakage ? "leakage: basis fitted on this text"
                                              : fmt::format("basis: {}, {} tokens", r.basis.source,
                                                            format_count(r.basis.num_tokens));
    chips.insert(
        chips.begin(),
        {{id_of(r.method), context.palette.accent, r.method},
         {lanes_text(r), 0, "Lanes of the rotated query and key that enter the dot product.",
          fmt::format("{}/{} lanes", r.kept_lanes, r.head_dim)},
         {basis, r.basis.leakage ? context.palette.warning : 0,
          r.basis.leakage
              ? "The rotation was fitted on text of this very trace: better than it can "
                "be on new text."
              : "The text on which the rotation was fitted.",
          r.basis.leakage ? "leakage" : r.basis.source},
         {"open loop", 0, "Lanes chosen on the stored Q and K of the recorded run."}});
    return chips;
  }

  static void note_ui(DrawContext& context, const LaneReport& r) {
    const auto& s = context.workspace.selection();
    const auto& spec = s.choice(s.shown).spec;
    std::string note;
    if (!spec.empty() && id_of(spec) != id_of(r.method))
      note = fmt::format("{} drops keys, not lanes: shown is {} with its defaults. ", id_of(spec),
                         id_of(r.method));
    if (selection::MethodSpec::parse(r.method).traits().evicts())
      note += fmt::format(
          "{} also evicts keys, which changes no query's lanes: the errors here are over all keys, "
          "as if none had been evicted. The KV map shows those kept. ",
          id_of(r.method));
    const bool said_beside_curves =
        std::any_of(r.bases.begin(), r.bases.end(),
                    [&](const BasisLoss& basis) { return basis.missing == r.basis_missing; });
    if (!r.basis_missing.empty())
      note += said_beside_curves
                  ? "Shown in a basis fitted on this trace, for want of a calibrated "
                    "one."
                  : r.basis_missing;
    if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
  }

  static void finding_ui(DrawContext& context, const LaneReport& r) {
    const BasisLoss& basis = own_basis(r);
    const auto* magnitude = r.find(basis, true, LaneChoice::Magnitude, -1);
    const auto* leading = r.find(basis, true, LaneChoice::Leading, -1);
    if (magnitude == nullptr || leading == nullptr) return;
    const std::size_t at = r.kept_index();
    const double online = r.group_mean(basis, true, LaneChoice::QueryLanes)[at];
    const auto q_head = static_cast<std::size_t>(context.workspace.selection().q_head);
    const widgets::FontScope strong(widgets::fonts().strong, context.figure ? 1.1F : 1.0F);
    widgets::text_wrapped(
        context.palette.text,
        fmt::format("With {} of {} lanes a key loses {} of its norm by its own largest lanes, {} "
                    "by the leading lanes, {} by its queries' lanes. Scores of query head {} are "
                    "off by {} ({}: {}).",
                    r.kept_lanes, r.head_dim, percent(magnitude->loss[at]),
                    percent(leading->loss[at]), percent(online), q_head,
                    percent(r.score_error[q_head]), id_of(r.twin),
                    percent(r.twin_score_error[q_head])));
  }

  void use_ui(DrawContext& context, const LaneReport& r) {
    const float room = ImGui::GetContentRegionAvail().y;
    heading_ui(context, "Lane use", "share of the chunk's rows whose score uses the lane");
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "0 %", "100 %", "of rows",
                            widgets::em(6));
    ImGui::SameLine(0, widgets::em(1));
    std::vector<widgets::LegendItem> items{{"static slicing keeps the lanes left of it",
                                            loss_color(context.palette, LaneChoice::Leading),
                                            widgets::LegendItem::Shape::Line}};
    if (r.stored_lanes < r.head_dim)
      items.push_back(
          {"never stored right of it", context.palette.text, widgets::LegendItem::Shape::Line});
    widgets::legend_ui(context.palette, items);
    const float map_height =
        std::max(widgets::em(8), room * 0.56F - ImGui::GetCursorPosY() + ImGui::GetScrollY());
    lane_map_ui(context, r, texture_, {-1, map_height});
    heading_ui(context, "Score error", "\u2016S \u2212 S^\u2016 / \u2016S\u2016 before softmax");
    score_errors_ui(context, r, ImGui::GetContentRegionAvail());
  }

  static void losses_ui(DrawContext& context, const LaneReport& r) {
    heading_ui(context, "Norm lost against lanes kept",
               "mean of | \u2016v\u2016 \u2212 \u2016v[I]\u2016 | / \u2016v\u2016");
    widgets::legend_ui(
        context.palette,
        {{"I: own largest lanes", loss_color(context.palette, LaneChoice::Magnitude),
          widgets::LegendItem::Shape::Line},
         {"I: leading lanes", loss_color(context.palette, LaneChoice::Leading),
          widgets::LegendItem::Shape::Line},
         {"I: largest lanes of the query (what AQUA cuts)",
          loss_color(context.palette, LaneChoice::QueryLanes), widgets::LegendItem::Shape::Line}});
    const float numbers = widgets::em(r.stored_lanes < r.head_dim ? 6.4F : 3.4F);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.6F);
    const float title = ImGui::GetTextLineHeightWithSpacing();
    const ImVec2 size((room.x - gap) / 2,
                      std::max(widgets::em(7), (room.y - numbers - title) / 2 - gap));
    for (const bool of_keys : {true, false})
      for (std::size_t i = 0; i < r.bases.size(); ++i) {
        if (i > 0) ImGui::SameLine(0, gap);
        ImGui::BeginChild(fmt::format("loss {} {}", of_keys, i).c_str(),
                          {size.x, size.y + (of_keys ? title : 0)});
        if (of_keys) basis_title_ui(context, r.bases[i]);
        if (r.bases[i].note)
          loss_plot_ui(context, r, i, of_keys, ImGui::GetContentRegionAvail());
        else if (of_keys)
          widgets::text_wrapped(context.palette.warning, r.bases[i].missing);
        ImGui::EndChild();
      }
    costs_ui(context, r);
  }

  static void basis_title_ui(DrawContext& context, const BasisLoss& basis) {
    std::string text = basis.matched ? "Matched: fitted on this trace (leakage)" : "Calibrated";
    if (!basis.matched && basis.note)
      text = basis.note->leakage
                 ? fmt::format("Calibrated on {}: holds this text (leakage)", basis.note->source)
                 : fmt::format("Foreign: calibrated on {}", basis.note->source);
    const bool leaks = basis.matched || (basis.note && basis.note->leakage);
    const widgets::FontScope strong(widgets::fonts().strong, 0.95F);
    widgets::text_colored(leaks ? context.palette.warning : context.palette.text,
                          widgets::elided(text, ImGui::GetContentRegionAvail().x));
  }

  static void costs_ui(DrawContext& context, const LaneReport& r) {
    const auto& p = context.palette;
    const auto even = analysis::break_even(r.head_dim, r.kept_lanes);
    const auto seen = format_count(r.span.end());
    if (even.one_projection)
      widgets::text_wrapped(
          p.text, fmt::format("Fewer multiplications from {:.0f} keys on (d\u00B2/(d\u2212k), the "
                              "query rotated), from {:.0f} with the key's rotation too "
                              "(2d\u00B2/(d\u2212k)). This chunk sees {} keys.",
                              *even.one_projection, *even.two_projections, seen));
    else
      widgets::text_wrapped(p.text, "All lanes are kept: no length saves multiplications.");
    if (r.stored_lanes == r.head_dim) return;
    const auto memory = analysis::lane_memory(r.head_dim, r.stored_lanes);
    widgets::text_wrapped(
        p.text, fmt::format("Memory: {} of {} lanes of K are stored, {} of the keys' bytes less, "
                            "{} of the KV cache. (The paper claims {} of the KV cache, but defines "
                            "no projection of the values.)",
                            r.stored_lanes, r.head_dim, percent(memory.of_keys),
                            percent(memory.of_kv_cache), percent(r.slice_ratio)));
  }

  widgets::MapTexture texture_;
};

}  // namespace

std::unique_ptr<Panel> make_aqua_lanes_panel() { return std::make_unique<AquaLanesPanel>(); }

}  // namespace kvloupe::panels
