// quest_pages: what Quest knows of each page of a head's keys (a bound on their logits) against the
// best key that is truly there, which pages it takes, misses and wastes, and how the pages taken
// change from step to step.
#include "app/panels/page_plots.h"

#include "app/state/questions/why_lost/explain_words.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::PageMove;
using analysis::PageReport;
using analysis::PageVerdict;
using state::QuestPagesQuestion;
using Shape = widgets::LegendItem::Shape;

std::string come_back_text(int pages) {
  if (pages == 0) return "none comes back after it was dropped";
  if (pages == 1) return "1 page comes back after it was dropped";
  return fmt::format("{} pages come back after they were dropped", pages);
}

class QuestPagesPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const QuestPagesQuestion question = state::quest_pages_question(context.workspace);
    const Pages result = shown_.ask(context.workspace, question);
    const char* title = "Quest pages";
    if (!stand_in_ready_ui(context, title, question, result, "Bounding the pages")) return;
    stand_in_head_ui(context, title, result.question.place, result->facts,
                     result.question.stand_in);
    ready_ui(context, result, "");
    note_ui(context, result->report);
    if (result->report.pages.empty()) {
      widgets::empty_ui(context.palette, "There are no keys before this chunk, so no pages.");
      return;
    }
    finding_ui(context, result.question.place, *result);
    plots_ui(context, result);
  }

 private:
  static void note_ui(DrawContext& context, const PageReport& report) {
    std::string note;
    // The window has a chip and a heading that say so, and little room.
    if (report.span.phase == trace::Phase::Prefill && context.figure)
      note = "A chunk of the prompt: an extension, the paper selects in decode only. ";
    if (report.dense_reason)
      note += fmt::format("Nothing is selected in this cell: {}.",
                          state::words_of(*report.dense_reason));
    if (!note.empty()) widgets::text_wrapped(context.palette.warning, note);
  }

  static void finding_ui(DrawContext& context, const state::Place& place,
                         const QuestPagesQuestion::Answer& answer) {
    const PageReport& r = answer.report;
    std::string text, more;
    if (!r.dense_reason) {
      const int chosen = r.hits + r.wastes, best = r.hits + r.misses;
      text = chosen == 0
                 ? "No page is chosen by bound: the budget holds only what is kept by rule."
                 : fmt::format(
                       "{} of the {} page{} chosen by bound {} among the {} best by logit ({}).",
                       r.hits, chosen, chosen == 1 ? "" : "s", r.hits == 1 ? "is" : "are", best,
                       share_text(r.page_recall()));
      if (r.forced > 0) more = "The last page is kept by rule. ";
    }
    more += fmt::format("On average the bound lies {:.2f} above the best logit of its page.",
                        answer.mean_looseness);
    if (const analysis::PageStep* step = answer.step_here(); step != nullptr && step->jaccard)
      more += fmt::format(" Jaccard with the step before: {:.2f}; {}.", *step->jaccard,
                          come_back_text(step->reselected));
    text += of_span(place, r);
    if (!text.empty()) headline_ui(context, text);
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_wrapped(context.palette.muted, more);
  }

  // " Of the 2 pages of needle none is taken, 1 is truly among the best."
  static std::string of_span(const state::Place& place, const PageReport& report) {
    const auto span = state::watched_keys(place);
    if (!span || report.dense_reason) return "";
    int pages = 0, taken = 0, best = 0, forced = 0;
    for (const analysis::PageScore& page : report.pages) {
      if (!span->keys.meets(page.begin, page.end)) continue;
      ++pages;
      forced += page.verdict == PageVerdict::Forced;
      taken += page.taken() && page.verdict != PageVerdict::Forced;
      best += page.verdict == PageVerdict::Hit || page.verdict == PageVerdict::Miss;
    }
    if (pages == 0) return "";
    const auto words = [](int count) {
      return count == 0 ? std::string("none is")
                        : fmt::format("{} {}", count, count == 1 ? "is" : "are");
    };
    return fmt::format(" Of the {} page{} of {} {} taken, {} truly among the best by logit{}.",
                       pages, pages == 1 ? "" : "s", state::readable_name(span->name), words(taken),
                       words(best), forced > 0 ? fmt::format("; {} kept by rule", forced) : "");
  }

  void plots_ui(DrawContext& context, const Pages& result) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool wide = room.x > widgets::em(52);
    const bool has_steps = !result->report.steps.empty();
    const float height = std::max(
        room.y, widgets::em(context.figure ? (wide ? 24.0F : 64.0F) : (wide ? 29.0F : 70.0F)));
    const float left = wide ? room.x * 0.36F : room.x;
    ImGui::BeginChild("bounds", {left, wide ? height : height * 0.34F});
    bounds_ui(context, result);
    ImGui::EndChild();
    if (wide) ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("pages", {0, wide ? height : height * 0.66F});
    const float right = ImGui::GetContentRegionAvail().y;
    heading_ui(context, "Along the text", "from the best logit (dot) to the bound (cap)");
    const float title = ImGui::GetTextLineHeightWithSpacing();
    const PageReport& r = result->report;
    const bool no_moves = !r.dense_reason && !r.pages.empty() && !r.pages.front().move;
    if (no_moves)
      widgets::text_wrapped(context.palette.muted,
                            "Which pages stay from chunk to chunk is not known: the queries of "
                            "some chunks before are not stored.");
    bound_strip_ui(context, result,
                   {-1, has_steps  ? right * 0.38F - title
                        : no_moves ? -1
                                   : right - title});
    if (has_steps) steps_ui(context, result);
    ImGui::EndChild();
  }

  static void bounds_ui(DrawContext& context, const Pages& result) {
    const auto& p = context.palette;
    const PageReport& r = result->report;
    heading_ui(context, "Bound against truth",
               fmt::format("a dot: a page of {} token{}; logits", r.page_size,
                           r.page_size == 1 ? "" : "s"));
    std::vector<widgets::LegendItem> items{
        {"taken, truly best", color_of(p, PageVerdict::Hit), Shape::Dot},
        {"missed", color_of(p, PageVerdict::Miss), Shape::Dot},
        {"taken for nothing", color_of(p, PageVerdict::Waste), Shape::Dot},
        {"kept by rule", color_of(p, PageVerdict::Forced), Shape::Dot},
        {"neither", color_of(p, PageVerdict::Neither), Shape::Dot}};
    if (const auto span = state::watched_keys(result.question.place))
      items.push_back({state::readable_name(span->name), p.text, Shape::Frame});
    if (shows_equal_bounds(result)) items.push_back({"bound = best", p.faint, Shape::Line});
    if (!r.dense_reason) widgets::legend_ui(p, items);
    bound_scatter_ui(context, result, ImGui::GetContentRegionAvail());
  }

  void steps_ui(DrawContext& context, const Pages& result) {
    const auto& p = context.palette;
    const PageReport& r = result->report;
    const bool decode = r.span.phase == trace::Phase::Decode;
    heading_ui(context, decode ? "Decode steps, as in the paper" : "Chunks of the prompt",
               fmt::format("pages taken by {}", result->row_is_one_head
                                                    ? fmt::format("query head {}", r.q_head)
                                                    : "the query heads of the KV head together"));
    widgets::legend_ui(p, {{"stays", color_of(p, PageMove::Kept)},
                           {"new", color_of(p, PageMove::New)},
                           {"taken again after it was dropped", color_of(p, PageMove::Reselected)},
                           {"dropped", color_of(p, PageMove::Dropped)},
                           {"never taken", color_of(p, PageMove::Out)}});
    ImGui::Dummy({0, widgets::em(0.6F)});  // the spans are named above the map
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.8F);
    page_steps_ui(context, result, texture_, {room.x * 0.66F - gap, room.y});
    ImGui::SameLine(0, gap);
    page_churn_ui(context, result, ImGui::GetContentRegionAvail());
  }

  state::LastAnswer<QuestPagesQuestion> shown_;
  widgets::MapTexture texture_;
};

}  // namespace

std::unique_ptr<Panel> make_quest_pages_panel() { return std::make_unique<QuestPagesPanel>(); }

}  // namespace kvloupe::panels
