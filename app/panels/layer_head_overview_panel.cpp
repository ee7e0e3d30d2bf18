// layer_head_overview: one number for every layer and head, to see in one look where a method, or
// its premise, fails. A click goes there. Of one method, of several, or of A less B.
#include "app/panels/overview_grid.h"
#include "app/panels/overview_lists.h"
#include "app/panels/show_control.h"
#include "app/state/questions/averaged_chunks.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::Number;
using replay::NumberInfo;
using state::OverviewQuestion;
using state::Show;
using state::Slot;

constexpr const char* kView = "layer_head_overview";
// em: two lists of cells beside each other.
constexpr float kLeastBesideGrid = 36;
// em: above a grid of several stands its method with its mean.
constexpr float kLeastGrid = 16;

class OverviewPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    switch (show(context)) {
      case Show::One: one_ui(context); break;
      case Show::Both:
        grids_ui(context,
                 drawn_of({context.workspace.method(Slot::A), context.workspace.method(Slot::B)},
                          context));
        break;
      case Show::Several:
        grids_ui(context, drawn_of(state::several_methods(context.workspace), context));
        break;
      case Show::Traces: grids_ui(context, state::overview_drawn(context.workspace)); break;
      case Show::Difference: difference_ui(context); break;
    }
  }

 private:
  static Show show(const DrawContext& context) {
    const OverviewQuestion asked = state::overview_question(context.workspace);
    const Show show = show_now(context, kView);
    return analysis::needs_method(asked.asked) || show == Show::Traces ? show : Show::One;
  }

  static state::AllDrawn drawn_of(const std::vector<state::MethodChoice>& methods,
                                  const DrawContext& context) {
    state::AllDrawn drawn;
    for (const state::MethodChoice& method : methods)
      drawn.pictures.push_back(
          {context.workspace.place(), method, context.workspace.selection().numbers});
    return drawn;
  }

  void one_ui(DrawContext& context) {
    grid_.begin_frame(context.workspace.place(), 1, true);
    const OverviewQuestion asked = state::overview_question(context.workspace);
    const Overview result = shown_[0].ask(context.workspace, asked);
    head_.begin();
    // Of a number of attention alone all methods are one, but not two traces.
    if (analysis::needs_method(asked.asked) || !state::other_tabs(context.workspace).empty())
      show_ui(context, kView);
    head_ui(context, result.question);
    if (!context.figure) controls_ui(context, asked);
    const NumberInfo& info = replay::info_of(result.question.number());
    if (!ready_ui(context, result, fmt::format("Measuring {} in all layers", info.title))) return;
    const Coloring coloring(info, scale_.of(result.question, *result));
    scale_ui(context, result, info, coloring);
    if (const std::string text = state::overview_finding(result.question, *result); !text.empty())
      headline_ui(context, text);
    note_ui(context, result.question);
    head_.end(result.question.place.cell_key() + result.question.key());
    const bool entropy = info.number == Number::Entropy;
    OverviewHeadings headings{entropy ? "Most spread" : "Look here first",
                              entropy ? "Sharpest" : "Doing best"};
    if (!result->gap.values.empty())
      headings.order = "sorted by the gap to the oracle";
    else if (result.question.watched())
      headings.order = "sorted by the share kept";  // not ranked yet, or the attention is not known
    if (result.question.watched() && !result->gap.values.empty())
      headings.most_worst = static_cast<std::size_t>(
          std::ranges::count_if(result->gap.values, [](float gap) { return gap > 0; }));
    grid_and_extremes_ui(context, result, info, coloring, headings);
  }

  void grid_and_extremes_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
                            const Coloring& coloring, const OverviewHeadings& headings) {
    if (!context.figure) {
      const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
      const ImVec2 grid = grid_.size(result->overview);
      const float beside = room.x - grid.x - widgets::em(2);
      const float below = room.y - grid.y - widgets::em(0.6F);
      const bool is_beside = beside >= widgets::em(kLeastBesideGrid) && grid.y <= room.y;
      const bool lists = !is_beside && below > widgets::em(5);
      const float height = std::max(lists ? room.y - below : room.y, widgets::em(9));
      ImGui::BeginChild("grid", {0, height}, ImGuiChildFlags_None,
                        ImGuiWindowFlags_HorizontalScrollbar);
      grid_.draw(context, result, info, coloring);
      ImGui::EndChild();
      if (is_beside) {
        // Over what the grid leaves: in less width it would lie the other way.
        ImGui::SetCursorScreenPos({at.x + room.x - beside, at.y});
        ImGui::BeginChild("lists", {beside, height});
        overview_lists_ui(context, result, coloring, headings);
        ImGui::EndChild();
      } else if (lists) {
        overview_lists_ui(context, result, coloring, headings);
      }
      return;
    }
    const float side = widgets::em(23);
    // On paper the page grows by the lists below.
    if (context.least_plot > 0 && ImGui::GetContentRegionAvail().x < 1.8F * side) {
      const float lists = widgets::em(17);
      ImGui::BeginChild("grid",
                        {0, std::max(ImGui::GetContentRegionAvail().y - lists, widgets::em(14))},
                        ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
      grid_.draw(context, result, info, coloring);
      ImGui::EndChild();
      return overview_lists_ui(context, result, coloring, headings);
    }
    ImGui::BeginChild("grid", {ImGui::GetContentRegionAvail().x - side, 0});
    grid_.draw(context, result, info, coloring);
    ImGui::EndChild();
    ImGui::SameLine();
    ImGui::BeginChild("extremes", {0, 0}, ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
    overview_extremes_ui(context, result, info, coloring, headings);
    ImGui::EndChild();
  }

  // One grid a method, or a trace, in the colours of one scale.
  void grids_ui(DrawContext& context, const state::AllDrawn& drawn) {
    if (drawn.pictures.empty()) {
      show_ui(context, kView);
      widgets::empty_ui(context.palette, "Choose a method in the bar above.");
      return;
    }
    grid_.begin_frame(context.workspace.place(), drawn.pictures.size());
    std::vector<Overview> results;
    for (std::size_t i = 0; i < drawn.pictures.size(); ++i)
      results.push_back(shown_[i].ask(
          context.workspace, state::overview_question(context.workspace, drawn.pictures[i])));
    const OverviewQuestion& first = results.front().question;
    widgets::figure_head_ui(
        context.palette, context.figure,
        fmt::format("{} by layer and head", replay::headline_of(first.number())), "",
        place_caption(first.place), {});
    show_ui(context, kView);
    if (!context.figure) controls_ui(context, first);
    for (const Overview& result : results)
      if (result) scale_.of(result.question, *result);
    // One colour means one number in both traces.
    const auto range_of = [&](const Overview& result) {
      state::OverviewScale::Range range = scale_.of(result.question, *result);
      for (const Overview& other : results)
        if (drawn.other && other)
          range.high = std::max(range.high, scale_.of(other.question, *other).high);
      return range;
    };
    if (const auto ready = std::find_if(results.begin(), results.end(),
                                        [](const Overview& result) { return bool(result); });
        ready != results.end()) {
      const NumberInfo& info = replay::info_of(ready->question.number());
      scale_ui(context, *ready, info, Coloring(info, range_of(*ready)));
    }
    if (!drawn.problem().empty()) other_ready_ui(context, drawn.other);
    if (!drawn.other.note.empty()) widgets::text_wrapped(context.palette.muted, drawn.other.note);
    const int count = static_cast<int>(drawn.pictures.size());
    if (count == 2 && !drawn.other) {
      same_method_ui(context, drawn.pictures[0].method, drawn.pictures[1].method);
      both_finding_ui(context, results);
    }
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const int across = grids_across(results, room, grid_.layers_run_across());
    const int down = (count + across - 1) / across;
    const float gap = widgets::em(0.6F);
    const ImVec2 size(
        (room.x - gap * static_cast<float>(across - 1)) / static_cast<float>(across),
        std::max(widgets::em(count > 2 ? 7 : 9),
                 (room.y - gap * static_cast<float>(down)) / static_cast<float>(down)));
    for (int i = 0; i < count; ++i) {
      if (i % across != 0) ImGui::SameLine(0, gap);
      ImGui::BeginChild(fmt::format("grid {}", i).c_str(), size);
      const Overview& result = results[static_cast<std::size_t>(i)];
      grid_of_ui(context, static_cast<std::size_t>(i), result, bool(drawn.other),
                 result ? range_of(result) : state::OverviewScale::Range());
      ImGui::EndChild();
    }
  }

  // Of methods whose number is the same.
  void both_finding_ui(DrawContext& context, const std::vector<Overview>& results) {
    const OverviewQuestion &a = results[0].question, &b = results[1].question;
    if (a.number() != b.number() || a.method == b.method) return;
    const auto result =
        difference_.ask(context.workspace, state::overview_difference_question(context.workspace));
    if (!result) return;
    const std::string finding = state::overview_finding(result.question, *result);
    if (result.stale)
      widgets::text_wrapped(context.palette.muted, finding);
    else
      headline_ui(context, finding);
  }

  // As many beside each other as give cells of which the shorter side is longest, in all of them.
  static int grids_across(const std::vector<Overview>& results, ImVec2 room, bool layers_across) {
    const state::Place& place = results.front().question.place;
    const auto layers = static_cast<float>(place.info().layers.size());
    auto heads = static_cast<float>(place.info().model.num_kv_heads);
    for (const Overview& result : results)
      if (result) heads = std::max(heads, static_cast<float>(result->overview.values.cols));
    const auto count = static_cast<int>(results.size());
    int best = 1;
    float longest = 0;
    for (int across = 1; across <= count; ++across) {
      const float w = room.x / static_cast<float>(across) - widgets::em(2.2F);
      const float h = room.y / static_cast<float>((count + across - 1) / across) - widgets::em(5);
      if (across > 1 && w < widgets::em(kLeastGrid)) break;
      const float side =
          std::min(w / (layers_across ? layers : heads), h / (layers_across ? heads : layers));
      if (side > longest) {
        longest = side;
        best = across;
      }
    }
    return best;
  }

  void grid_of_ui(DrawContext& context, std::size_t index, const Overview& result, bool names_trace,
                  state::OverviewScale::Range range) {
    const NumberInfo& info = replay::info_of(result.question.number());
    std::vector<std::string> mean;
    if (result && result->num_known > 0) {
      double sum = 0;
      for (const std::int32_t i : result->by_worth)
        sum += result->overview.values.values[static_cast<std::size_t>(i)];
      if (result.question.number() != result.question.asked) mean.emplace_back(info.title);
      mean.push_back(fmt::format("mean {:.3f}", sum / result->num_known));
      mean.push_back(fmt::format("{} heads", result->num_known));
    }
    if (names_trace)
      heading_ui(context, state::readable_name(result.question.place.trace->name),
                 fmt::format("{}{}",
                             result.question.of_method()
                                 ? state::readable_name(result.question.method.id()) + "  "
                                 : "",
                             fmt::join(mean, ", ")));
    else
      method_line_ui(context, index, result.question.method, mean);
    if (!ready_ui(context, result, fmt::format("Measuring {} in all layers", info.title))) return;
    const Coloring coloring(info, range);
    if (result.question.number() != result.question.asked)
      other_number_ui(context, result.question, info, coloring);
    grid_.draw(context, result, info, coloring);
  }

  void difference_ui(DrawContext& context) {
    grid_.begin_frame(context.workspace.place(), 1);
    const auto asked = state::overview_difference_question(context.workspace);
    const auto result = difference_.ask(context.workspace, asked);
    const OverviewQuestion& a = result.question.a;
    const OverviewQuestion& b = result.question.b;
    widgets::figure_head_ui(
        context.palette, context.figure,
        fmt::format("{}: A less B, by layer and head", replay::headline_of(a.number())), "",
        place_caption(a.place), {});
    show_ui(context, kView);
    both_chips_ui(context, a.place, *state::known_facts(context.workspace, a.place, a.method),
                  *state::known_facts(context.workspace, b.place, b.method));
    if (!context.figure) controls_ui(context, asked.a);
    if (!ready_ui(context, result, "Comparing A and B in all layers")) return;
    const Coloring coloring(scale_.of(result.question, *result));
    NumberInfo info = replay::info_of(a.number());
    difference_scale_ui(context, *result, info, coloring);
    difference_mean_ui(context, a, *result);
    const std::string title = fmt::format("A less B: {}", info.title);
    info.title = title.c_str();
    Overview drawn;  // the differences, as a grid draws values
    drawn.state = result.state;
    drawn.question = a;
    drawn.answer = {result.answer, &result->less};
    drawn.stale = result.stale;
    drawn.key = result.key;
    grid_and_extremes_ui(
        context, drawn, info, coloring,
        {"B furthest ahead", "A furthest ahead", static_cast<std::size_t>(result->b_better),
         static_cast<std::size_t>(result->a_better)});
  }

  static void difference_scale_ui(DrawContext& context,
                                  const state::OverviewDifferenceQuestion::Answer& answer,
                                  const NumberInfo& info, const Coloring& coloring) {
    beside_controls_ui(context);
    widgets::color_scale_ui(
        context.palette, coloring.color, fmt::format("B higher by {:.2g}", coloring.range.high),
        fmt::format("A higher by {:.2g}", coloring.range.high), info.title, widgets::em(9));
    const bool has_better = info.better != replay::Better::Neither;
    remark_ui(
        context, context.palette.text,
        fmt::format("A is {0} in {1} of {2} heads, B in {3}", has_better ? "better" : "higher",
                    answer.a_better, answer.less.num_known, answer.b_better));
    if (answer.less.num_dense > 0)
      remark_ui(context, context.palette.muted, "struck out: one of them is not known there");
  }

  // What both means are over: the chunk in the head is not all of it.
  static void difference_mean_ui(DrawContext& context, const OverviewQuestion& question,
                                 const state::OverviewDifferenceQuestion::Answer& answer) {
    if (question.mean_of_chunks()) {
      const bool decodes = answer.less.overview.phase == trace::Phase::Decode;
      const std::string chunks =
          question.chunks.chosen
              ? state::words_of(question.chunks, question.place.info(), answer.less.overview.phase)
          : decodes ? "decode steps"
                    : "chunks";
      widgets::text_wrapped(context.palette.muted,
                            fmt::format("mean over {} in which both choose", chunks));
    }
    ImGui::Dummy({0, widgets::grid(0.5F)});
  }

  // Budgets and fallbacks are those of the head that the place names.
  static void head_ui(DrawContext& context, const OverviewQuestion& question) {
    const std::string title =
        fmt::format("{} by layer and head", replay::headline_of(question.number()));
    if (!question.of_method()) {
      widgets::figure_head_ui(context.palette, context.figure, title, "",
                              place_caption(question.place), trace_chips(context, question.place));
      return;
    }
    if (question.method.empty()) return;
    method_head_ui(context, title, question.place,
                   *state::known_facts(context.workspace, question.place, question.method),
                   context.workspace.selection().shown);
  }

  static void note_ui(DrawContext& context, const OverviewQuestion& question) {
    if (!question.of_method()) return;
    if (question.number() == question.asked) {
      method_note_ui(context, question.place,
                     *state::known_facts(context.workspace, question.place, question.method));
      return;
    }
    widgets::text_wrapped(context.palette.warning, words_of_other_number(question));
  }

  // Of several grids the one with another number has a scale of its own.
  static void other_number_ui(DrawContext& context, const OverviewQuestion& question,
                              const NumberInfo& info, const Coloring& coloring) {
    const std::string note = words_of_other_number(question);
    if (context.figure) widgets::text_wrapped(context.palette.warning, note);
    widgets::color_scale_ui(context.palette, coloring.color,
                            fmt::format("{:.2g}", coloring.range.low),
                            fmt::format("{:.2g}", coloring.range.high), "", widgets::em(7));
    ImGui::SameLine(0, widgets::em(0.8F));
    const widgets::FontScope small(widgets::Type::Caption);
    widgets::text_colored(
        context.palette.warning,
        widgets::elided(fmt::format("{}: {} keeps every key", info.title, question.method.id()),
                        ImGui::GetContentRegionAvail().x));
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", note.c_str());
  }

  // Where what is shown is not what was asked for.
  static std::string words_of_other_number(const OverviewQuestion& question) {
    return fmt::format(
        "{} cuts lanes and keeps every key: \u201C{}\u201D would be 1 everywhere, shown is what "
        "the "
        "cut lanes cost.",
        question.method.id(), replay::headline_of(question.asked));
  }

  static void controls_ui(DrawContext& context, const OverviewQuestion& asked) {
    state::Cursor& cursor = context.workspace.cursor;
    ImGui::SetNextItemWidth(std::min(widgets::em(11), ImGui::GetContentRegionAvail().x));
    if (ImGui::BeginCombo("##metric", replay::headline_of(asked.asked).c_str())) {
      for (const Number number : analysis::kOverviewNumbers) {
        if (ImGui::Selectable(replay::headline_of(number).c_str(), number == asked.asked))
          cursor.set_option("layer_head_overview.metric", replay::name_of(number));
        if (ImGui::IsItemHovered()) widgets::tooltip("%s", replay::info_of(number).sentence);
      }
      ImGui::EndCombo();
    }
    // The bar above says over which chunks, where it says anything.
    if (!analysis::needs_method(asked.asked) || asked.chunks.chosen) return;
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x < widgets::em(7)) ImGui::NewLine();
    bool all = !asked.chunks.range;
    if (ImGui::Checkbox("all chunks", &all))
      cursor.set_option("layer_head_overview.chunks", all ? "all" : "current");
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "Mean over all chunks of the prompt that selected (over the decode steps where none "
          "did), "
          "instead of the current chunk");
  }

  // The scale goes on in the line of the controls.
  static void beside_controls_ui(DrawContext& context) {
    if (!context.figure) beside_ui(widgets::grid(2), widgets::em(14));
  }

  // What the numbers are means over, as far as the place does not say it.
  static std::string words_of_mean(const Overview& result) {
    const OverviewQuestion& question = result.question;
    if (question.of_method() && question.chunks.chosen)
      return ", " + state::words_of(question.chunks, question.place.info(), result->overview.phase);
    if (!question.mean_of_chunks()) return "";
    return result->overview.phase == trace::Phase::Decode ? ", mean over decode steps"
                                                          : ", mean over chunks";
  }

  static void scale_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
                       const Coloring& coloring) {
    const std::string mean = words_of_mean(result);
    beside_controls_ui(context);
    widgets::color_scale_ui(
        context.palette, coloring.color, fmt::format("{:.2g}", coloring.range.low),
        fmt::format("{:.2g}", coloring.range.high),
        context.figure ? fmt::format("{}{}", info.brief, mean) : "", widgets::em(7));
    if (info.number == Number::RelevancePearson)
      remark_ui(context, context.palette.text,
                fmt::format("{} of {} heads above 0.5", result->above_half, result->num_known));
    const auto keys = result.question.watched();
    if (keys) {
      const std::string range = state::keys_words(keys->keys);
      remark_ui(context, context.palette.text,
                keys->name == range
                    ? "watched: " + range
                    : fmt::format("watched: {} ({})", state::readable_name(keys->name), range));
    }
    if (result.question.of_method() && result->num_dense > 0)
      remark_ui(context, context.palette.muted,
                keys ? "struck out: dense, or none of these keys comes before the chunk"
                     : "struck out: dense, everything is kept");
    ImGui::Dummy({0, widgets::grid(0.5F)});
  }

  std::array<state::LastAnswer<OverviewQuestion>, state::kMostMethods> shown_;
  state::LastAnswer<state::OverviewDifferenceQuestion> difference_;
  state::OverviewScale scale_;
  OverviewGrid grid_;
  SteadyHead head_;
};

}  // namespace

std::unique_ptr<Panel> make_layer_head_overview_panel() {
  return std::make_unique<OverviewPanel>();
}

}  // namespace kvloupe::panels
