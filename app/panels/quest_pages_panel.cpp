// quest_pages: what Quest knows of each page of a head's keys (a bound on their logits) against the
// best key that is truly there, which pages it takes, misses and wastes, and how the pages taken
// change from step to step.
#include "app/panels/page_plots.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::PageMove;
using analysis::PageReport;
using analysis::PageVerdict;

const char* reason_text(trace::DenseReason reason) {
  switch (reason) {
    case trace::DenseReason::EmptyPast:
      return "there are no keys before this chunk";
    case trace::DenseReason::FitsBudget:
      return "all past keys fit the budget";
    case trace::DenseReason::MethodRule:
      return "it is dense here by rule";
  }
  return "";
}

class QuestPagesPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto report = workspace.page_report();
    widgets::figure_head_ui(context.palette, context.figure, "Quest pages",
                            report ? report->method : "", place_caption(workspace),
                            report ? chips(context, *report) : trace_chips(context));
    if (!ready_ui(context, report, "Bounding the pages")) return;
    note_ui(context, *report);
    if (report->pages.empty()) {
      widgets::empty_ui(context.palette, "There are no keys before this chunk, so no pages.");
      return;
    }
    finding_ui(context, *report);
    plots_ui(context, *report);
  }

  Table table(state::Workspace& workspace) override {
    const auto report = workspace.page_report();
    return page_table(report.value.get());
  }

  Array array(state::Workspace& workspace) override {
    const auto report = workspace.page_report();
    if (!report) return {};
    std::vector<float> values;
    for (const analysis::PageScore& page : report->pages) {
      values.push_back(page.bound);
      values.push_back(page.best);
    }
    return array_of("<f4", {static_cast<std::int64_t>(report->pages.size()), 2}, values);
  }

  std::string problem(state::Workspace& workspace) override {
    const auto report = workspace.page_report();
    if (report && report->pages.empty()) return "there are no keys before this chunk";
    return problem_of(report);
  }

 private:
  static bool is_shown_method(DrawContext& context, const PageReport& report) {
    const auto& s = context.workspace.selection();
    return s.choice(s.shown).spec == report.method;
  }

  static std::vector<widgets::Chip> chips(DrawContext& context, const PageReport& report) {
    if (is_shown_method(context, report))
      return method_chips(context, context.workspace.selection().shown);
    auto chips = trace_chips(context);
    chips.insert(chips.begin(),
                 {{"quest", context.palette.accent, report.method},
                  {"open loop", 0, "Selected on the stored Q and K of the recorded run."},
                  extension_chip(context.palette, report.method)});
    return chips;
  }

  static void note_ui(DrawContext& context, const PageReport& report) {
    const auto& s = context.workspace.selection();
    const std::string& shown = s.choice(s.shown).spec;
    std::string note;
    if (!shown.empty() && !is_shown_method(context, report))
      note = fmt::format("{} does not select pages: shown is quest with the same budget. ",
                         shown.substr(0, shown.find(':')));
    if (report.span.phase == trace::Phase::Prefill)
      note += "A chunk of the prompt: an extension, the paper selects in decode only. ";
    if (report.dense_reason)
      note +=
          fmt::format("Nothing is selected in this cell: {}.", reason_text(*report.dense_reason));
    if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
  }

  static void finding_ui(DrawContext& context, const PageReport& r) {
    std::string text = fmt::format(
        "On average the bound lies {:.2f} above the best logit of its "
        "page.",
        r.mean_looseness());
    if (!r.dense_reason) {
      const int chosen = r.hits + r.wastes;
      text = fmt::format("Of {} pages chosen by bound {} are truly among the {} best ({}){}. ",
                         chosen, r.hits, r.hits + r.misses, percent(r.page_recall()),
                         r.forced > 0 ? "; the last page is kept by rule" : "") +
             text;
    }
    const auto step = std::find_if(r.steps.begin(), r.steps.end(), [&](const auto& candidate) {
      return candidate.chunk == r.chunk;
    });
    if (step != r.steps.end() && step->jaccard)
      text += fmt::format(
          " {} of the pages stay from the step before; {} come back after they were "
          "dropped.",
          percent(*step->jaccard), step->reselected);
    const widgets::FontScope strong(widgets::fonts().strong, context.figure ? 1.1F : 1.0F);
    widgets::text_wrapped(context.palette.text, text);
  }

  void plots_ui(DrawContext& context, const PageReport& r) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool wide = room.x > widgets::em(52);
    const bool has_steps = !r.steps.empty();
    const float gap = widgets::em(1);
    const float height = std::max(room.y, widgets::em(wide ? 24.0F : 64.0F));
    const float left = wide ? room.x * 0.36F : room.x;
    ImGui::BeginChild("bounds", {left, wide ? height : height * 0.34F});
    bounds_ui(context, r);
    ImGui::EndChild();
    if (wide) ImGui::SameLine(0, gap);
    ImGui::BeginChild("pages", {0, wide ? height : height * 0.66F});
    const float right = ImGui::GetContentRegionAvail().y;
    heading_ui(context, "Along the text", "from the best logit (dot) to the bound (cap)");
    const float title = ImGui::GetTextLineHeightWithSpacing();
    bound_strip_ui(context, r, {-1, has_steps ? right * 0.38F - title : right - title});
    if (has_steps) steps_ui(context, r);
    ImGui::EndChild();
  }

  static void bounds_ui(DrawContext& context, const PageReport& r) {
    const auto& p = context.palette;
    using Shape = widgets::LegendItem::Shape;
    heading_ui(context, "Bound against truth",
               fmt::format("each dot a page of {} tokens, scaled logits", r.page_size));
    if (!r.dense_reason)
      widgets::legend_ui(p, {{"taken, truly best", color_of(p, PageVerdict::Hit), Shape::Dot},
                             {"missed", color_of(p, PageVerdict::Miss), Shape::Dot},
                             {"taken for nothing", color_of(p, PageVerdict::Waste), Shape::Dot},
                             {"kept by rule", color_of(p, PageVerdict::Forced), Shape::Dot},
                             {"neither", color_of(p, PageVerdict::Neither), Shape::Dot},
                             {"taken again", color_of(p, PageMove::Reselected), Shape::Ring},
                             {"bound = best", p.faint, Shape::Line}});
    bound_scatter_ui(context, r, ImGui::GetContentRegionAvail());
  }

  void steps_ui(DrawContext& context, const PageReport& r) {
    const auto& p = context.palette;
    const bool decode = r.span.phase == trace::Phase::Decode;
    heading_ui(context,
               decode ? "Decode steps, as in the paper" : "Chunks of the prompt (extension)",
               fmt::format("pages taken by {}", r.method.find("per_query_head") != std::string::npos
                                                    ? fmt::format("query head {}", r.q_head)
                                                    : "the query heads of the KV head together"));
    using Shape = widgets::LegendItem::Shape;
    widgets::legend_ui(p, {{"stays", color_of(p, PageMove::Kept)},
                           {"new", color_of(p, PageMove::New)},
                           {"taken again after it was dropped", color_of(p, PageMove::Reselected)},
                           {"dropped", color_of(p, PageMove::Dropped)},
                           {"never taken", color_of(p, PageMove::Out)},
                           {"share that stays (Jaccard)", p.text, Shape::Line}});
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.8F);
    page_steps_ui(context, r, texture_, {room.x * 0.58F - gap, room.y});
    ImGui::SameLine(0, gap);
    page_churn_ui(context, r, ImGui::GetContentRegionAvail());
  }

  widgets::MapTexture texture_;
};

}  // namespace

std::unique_ptr<Panel> make_quest_pages_panel() { return std::make_unique<QuestPagesPanel>(); }

}  // namespace kvloupe::panels
