// aqua_lanes: the lanes that AQUA's queries use, what norm vectors lose with the lanes cut (by
// magnitude against the leading ones, in a basis fitted here against a calibrated one), what the
// scores lose, and from what length on it pays.
#include "app/panels/lane_plots.h"

#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::BasisLoss;
using analysis::LaneChoice;
using analysis::LaneReport;
using selection::method_id;
using state::AquaLanesQuestion;

class AquaLanesPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const AquaLanesQuestion question = state::aqua_lanes_question(context.workspace);
    const Lanes result = shown_.ask(context.workspace, question);
    const char* title = "AQUA lanes";
    if (!stand_in_ready_ui(context, title, question, result,
                           "Rotating queries and keys; the first time a basis is calibrated, a "
                           "minute or two, once for a model"))
      return;
    head_ui(context, title, result);
    ready_ui(context, result, "");
    if (!result->note.empty()) widgets::text_wrapped(context.palette.warning, result->note);
    const auto first_option_ui = result->note.empty() ? option_beside_ui : option_ui;
    first_option_ui(context, "aqua_lanes", "plot", "plot", widgets::em(8));
    option_beside_ui(context, "aqua_lanes", "beside", "beside", widgets::em(7));
    if (context.workspace.option("aqua_lanes", "plot") == "overlap") {
      lane_overlaps_ui(context, result);
      return;
    }
    finding_ui(context, result);
    plots_ui(context, result);
  }

 private:
  static void head_ui(DrawContext& context, const char* title, const Lanes& result) {
    const LaneReport& r = result->report;
    stand_in_head_ui(context, title, result.question.place, result->facts, result.question.stand_in,
                     {{fmt::format("{} of {} lanes in each score", r.kept_lanes, r.head_dim), 0,
                       "Lanes of the rotated query and key that enter the dot product.",
                       fmt::format("{}/{} lanes", r.kept_lanes, r.head_dim)}});
  }

  void finding_ui(DrawContext& context, const Lanes& result) {
    low_ = false;
    if (!result->key_loss) return;
    const LaneReport& r = result->report;
    const auto q_head = static_cast<std::size_t>(result.question.place.q_head);
    const double error = r.score_error[q_head], of_twin = r.twin_score_error[q_head];
    // A low window has no room for the sentence on multiplications below: the headline says it.
    low_ = !context.figure && ImGui::GetContentRegionAvail().y < widgets::em(36);
    std::string text = fmt::format(
        "With {} of {} lanes scores of query head {} are off by {} ({}: {}).", r.kept_lanes,
        r.head_dim, q_head, share_text(error), method_id(r.twin), share_text(of_twin));
    if (low_ && result->break_even.one_projection)
      text += fmt::format(" That saves multiplications above {:.0f} keys; this {} sees {}.",
                          *result->break_even.one_projection, step_word(r.span.phase),
                          format_count(r.span.end()));
    headline_ui(context, text);
    if (low_) return;
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_wrapped(context.palette.muted, key_words(result));
  }

  // What a key alone loses, which may tell another story than the scores.
  static std::string key_words(const Lanes& result) {
    const LaneReport& r = result->report;
    const auto& loss = *result->key_loss;
    const auto q_head = static_cast<std::size_t>(result.question.place.q_head);
    if (r.score_error[q_head] < r.twin_score_error[q_head] && loss.query_lanes > loss.leading_lanes)
      return fmt::format(
          "By a key's norm alone static slicing would win ({} lost against {}), but a score needs "
          "a key only where its query is large.",
          share_text(loss.leading_lanes), share_text(loss.query_lanes));
    return fmt::format(
        "A key alone loses {} of its norm by its own largest lanes, {} by the leading lanes, {} "
        "by its queries' lanes.",
        share_text(loss.own_lanes), share_text(loss.leading_lanes), share_text(loss.query_lanes));
  }

  void plots_ui(DrawContext& context, const Lanes& result) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool wide = room.x > widgets::em(52);
    // Of its plots and their words, each of the least height.
    const float least = context.least_plot > 0 ? (wide ? 46.0F : 88.0F)
                        : context.figure       ? (wide ? 22.0F : 54.0F)
                                               : (wide ? 29.0F : 66.0F);
    const float height = std::max(room.y, widgets::em(least));
    const float left = wide ? room.x * 0.44F : room.x;
    ImGui::BeginChild("lanes", {left, wide ? height : height * 0.45F}, ImGuiChildFlags_None,
                      child_flags(context));
    use_ui(context, result);
    ImGui::EndChild();
    if (wide) ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("losses", {0, wide ? height : height * 0.55F}, ImGuiChildFlags_None,
                      child_flags(context));
    losses_ui(context, result);
    ImGui::EndChild();
  }

  void use_ui(DrawContext& context, const Lanes& result) {
    const LaneReport& r = result->report;
    const float room = ImGui::GetContentRegionAvail().y;
    heading_ui(
        context, "Lane use",
        fmt::format("share of the {}'s rows whose score uses the lane", step_word(r.span.phase)));
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "0 %", "100 %", "of rows",
                            widgets::em(6));
    const std::string sliced = "static slicing: left of it";
    ImGui::SameLine(0, widgets::em(1));
    if (ImGui::CalcTextSize(sliced.c_str()).x + widgets::em(2) > ImGui::GetContentRegionAvail().x)
      ImGui::NewLine();
    std::vector<widgets::LegendItem> items{{sliced,
                                            loss_color(context.palette, LaneChoice::Leading),
                                            widgets::LegendItem::Shape::Line}};
    if (r.stored_lanes < r.head_dim)
      items.push_back(
          {"never stored right of it", context.palette.text, widgets::LegendItem::Shape::Line});
    widgets::legend_ui(context.palette, items);
    const float map_height =
        std::max(widgets::em(8), room * 0.56F - ImGui::GetCursorPosY() + ImGui::GetScrollY());
    lane_map_ui(context, result, texture_, {-1, map_height});
    heading_ui(context, "Score error", "norm of the change, relative, before softmax");
    score_errors_ui(context, result, ImGui::GetContentRegionAvail());
  }

  void losses_ui(DrawContext& context, const Lanes& result) {
    const LaneReport& r = result->report;
    heading_ui(context, "Norm lost against lanes kept", "mean share of a vector's norm");
    using Shape = widgets::LegendItem::Shape;
    const auto color = [&](LaneChoice choice) { return loss_color(context.palette, choice); };
    widgets::legend_ui(context.palette,
                       {{"own largest lanes", color(LaneChoice::Magnitude), Shape::Line},
                        {"leading lanes", color(LaneChoice::Leading), Shape::Line},
                        {"largest lanes of the query (what AQUA cuts)",
                         color(LaneChoice::QueryLanes), Shape::Line}});
    if (!result->name_beside.empty())
      widgets::text_colored(context.palette.text,
                            "dashed: " + state::readable_name(result->name_beside));
    const std::string costs = low_ ? key_words(result) : costs_text(result);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float numbers = ImGui::CalcTextSize(costs.c_str(), nullptr, false, room.x).y +
                          ImGui::GetStyle().ItemSpacing.y;
    const float gap = widgets::em(0.6F);
    const float title = ImGui::GetTextLineHeightWithSpacing();
    const ImVec2 size(
        (room.x - gap) / 2,
        plot_height(context, std::max(widgets::em(7), (room.y - numbers - title) / 2 - gap)));
    for (const bool of_keys : {true, false})
      for (std::size_t i = 0; i < r.bases.size(); ++i) {
        if (i > 0) ImGui::SameLine(0, gap);
        ImGui::BeginChild(fmt::format("loss {} {}", of_keys, i).c_str(),
                          {size.x, size.y + (of_keys ? title : 0)}, ImGuiChildFlags_None,
                          child_flags(context));
        if (of_keys) basis_title_ui(context, r.bases[i]);
        if (r.bases[i].note)
          loss_plot_ui(context, result, i, of_keys, ImGui::GetContentRegionAvail());
        else if (of_keys)
          widgets::text_wrapped(context.palette.warning, r.bases[i].missing);
        ImGui::EndChild();
      }
    widgets::text_wrapped(context.palette.text, costs);
  }

  static void basis_title_ui(DrawContext& context, const BasisLoss& basis) {
    std::string text = basis.matched ? "Matched: fitted on this trace (leakage)" : "Calibrated";
    if (!basis.matched && basis.note)
      text = basis.note->leakage
                 ? fmt::format("Calibrated on {}: holds this text (leakage)", basis.note->source)
                 : fmt::format("Foreign: calibrated on {}", basis.note->source);
    const bool leaks = basis.matched || (basis.note && basis.note->leakage);
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(leaks ? context.palette.warning : context.palette.text,
                          widgets::elided(text, ImGui::GetContentRegionAvail().x));
  }

  // What pruning saves, in multiplications and in memory.
  static std::string costs_text(const Lanes& result) {
    const LaneReport& r = result->report;
    const analysis::BreakEven& even = result->break_even;
    std::string text = "All lanes are kept: no length saves multiplications.";
    if (even.one_projection)
      text = fmt::format(
          "Multiplications are saved above {:.0f} keys (d\u00B2/(d\u2212k)), above {:.0f} where "
          "keys are rotated too (2d\u00B2/(d\u2212k)). This {} sees {}.",
          *even.one_projection, *even.two_projections, step_word(r.span.phase),
          format_count(r.span.end()));
    if (r.stored_lanes == r.head_dim) return text;
    text += fmt::format(
        "\nE_ratio = (1 \u2212 slice_ratio) \u00B7 dim_ratio = {:.4g}: the share of a key's lanes "
        "that "
        "enters each product.\nMemory: {} of {} lanes of {} are stored, {} of the KV cache less.",
        r.effective_ratio, r.stored_lanes, r.head_dim, r.slices_values ? "K and V" : "K",
        share_text(result->memory.of_kv_cache));
    if (!r.slices_values)
      text += fmt::format(" (The paper's {} needs sliced values too: slice_values=1.)",
                          share_text(r.slice_ratio));
    return text;
  }

  state::LastAnswer<AquaLanesQuestion> shown_;
  widgets::MapTexture texture_;
  bool low_ = false;  // what keys lose stands below the plots, in place of the costs
};

}  // namespace

std::unique_ptr<Panel> make_aqua_lanes_panel() { return std::make_unique<AquaLanesPanel>(); }

}  // namespace kvloupe::panels
