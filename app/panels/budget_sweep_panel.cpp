// budget_sweep: what each method keeps of the attention against its budget, between the bounds that
// the true top keys and chance set, and the budget that is enough.
#include "app/state/questions/averaged_chunks.h"
#include "app/state/questions/how_much/budget_sweep.h"
#include "app/state/questions/how_much/sweep_jump.h"

#include "app/panels/map_plot.h"
#include "app/panels/sweep_plots.h"
#include "app/state/token_text.h"
#include "app/widgets/table.h"
#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::kSweepTargets;
using analysis::SweepPoint;
using replay::Number;
using state::BudgetSweepQuestion;
using state::SweepExtent;
using Curves = state::Result<BudgetSweepQuestion>;

constexpr const char* kView = "budget_sweep";
constexpr float kTableWidth = 25;  // em

class BudgetSweepPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Curves result =
        shown_.ask(context.workspace, state::budget_sweep_question(context.workspace));
    head_ui(context, result);
    options_ui(context);
    if (!ready_ui(context, result, "Sweeping the budget")) return;
    const Number number = state::budget_sweep_number(context.workspace);
    const std::vector<SweepStroke> lines = sweep_strokes(context.palette, result.question, *result);
    const bool exact = result->exact || !result.question.wants_exact();
    if (const std::string found = state::sweep_finding({lines.begin(), lines.end()}, number, exact);
        !found.empty())
      headline_ui(context, found);
    legend(context, lines, number);
    notes_ui(context, result, number);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    if (room.x > widgets::em(2 * kTableWidth)) {
      plot_ui(context, result, lines, number,
              {room.x - widgets::em(kTableWidth + 1), plot_height(context, room.y)});
      ImGui::SameLine(0, widgets::em(1));
      ImGui::BeginChild("enough", {0, 0});
      enough_ui(context, result, lines, number);
      ImGui::EndChild();
    } else {
      // A figure leaves the table what it needs: a line each, its heads and what is said below.
      const float table = widgets::em(1.3F * static_cast<float>(lines.size() + 1) + 5);
      const float height = context.figure ? room.y - table : room.y * 0.62F;
      plot_ui(context, result, lines, number, {-1, std::max(widgets::em(12), height)});
      enough_ui(context, result, lines, number);
    }
  }

 private:
  // The cells averaged: "layer 3, KV head 1".
  static std::string where(const Curves& result) {
    const state::Place& place = result.question.place;
    switch (result.question.extent) {
      case SweepExtent::Head:
        return fmt::format("layer {}, KV head {}", place.layer, place.kv_head());
      case SweepExtent::Layer: return fmt::format("layer {}, all heads", place.layer);
      case SweepExtent::Trace:
        return fmt::format("{} of {} layers", result ? result->num_layers : 0,
                           place.info().layers.size());
    }
    return {};
  }

  static std::string chunks_of(const Curves& result) {
    const BudgetSweepQuestion& question = result.question;
    return question.chunks.chosen
               ? state::words_of(question.chunks, question.place.info(), question.phase())
               : "prefill chunks";
  }

  static void head_ui(DrawContext& context, const Curves& result) {
    const state::Place& place = result.question.place;
    std::string methods;
    for (const state::Slot slot : state::kSlots)
      if (const auto& method = result.question.slots[static_cast<std::size_t>(slot)];
          !method.empty())
        methods += fmt::format(
            "{}{}: {}", methods.empty() ? "" : "   ", state::letter_of(slot),
            state::readable_name(!method.known()          ? method.text
                                 : context.least_plot > 0 ? state::short_family_of(method)
                                                          : state::family_of(method)));
    std::vector<widgets::Chip> chips{
        {"open loop, re-selected", 0,
         "Selected anew at every budget on the stored Q and K: an oracle simulation, the model "
         "itself did not attend to these selections.",
         "open loop"}};
    for (widgets::Chip& chip : trace_chips(context, place)) chips.push_back(std::move(chip));
    chips.push_back({where(result), 0, "Layers and heads whose chunks are averaged."});
    if (result.question.chunks.chosen)
      chips.push_back({chunks_of(result), 0, "Averaged over these: the choice of numbers above."});
    if (result.question.watched)
      chips.push_back({"watched: " + state::readable_name(result.question.watched->name), 0,
                       capitalised(state::keys_words(result.question.watched->keys)) + "."});
    if (result && result.state == state::ResultState::Loading && !result.stale)
      chips.push_back({"refining", context.palette.accent,
                       "More budgets are being computed; what is drawn is exact as it stands."});
    widgets::figure_head_ui(context.palette, context.figure, "Budget sweep", methods,
                            fmt::format("{}  \u00B7  {}  \u00B7  {}  \u00B7  {}", place.trace->name,
                                        state::readable_name(place.info().model.name),
                                        where(result), chunks_of(result) + " that select"),
                            chips);
  }

  static void options_ui(DrawContext& context) {
    option_ui(context, kView, "metric", "", widgets::em(10));
    option_beside_ui(context, kView, "scope", "scope", widgets::em(7));
    option_beside_ui(context, kView, "methods", "methods", widgets::em(7));
  }

  static void legend(DrawContext& context, const std::vector<SweepStroke>& lines, Number number) {
    std::vector<widgets::LegendItem> items;
    for (const SweepStroke& line : lines)
      if (line.curve->is_known(number))
        items.push_back({line.label, line.color,
                         line.curve->has_budget() ? widgets::LegendItem::Shape::Line
                                                  : widgets::LegendItem::Shape::Dot});
    std::string goals;
    for (const analysis::SweepTarget& target : analysis::kSweepTargets)
      goals += fmt::format("{}{:g}", goals.empty() ? "" : ", ", analysis::goal_of(number, target));
    items.push_back({"targets " + goals, widgets::with_alpha(context.palette.good, 0.5F),
                     widgets::LegendItem::Shape::Line});
    widgets::legend_ui(context.palette, items);
  }

  // What the curves alone would not tell.
  static void notes_ui(DrawContext& context, const Curves& result, Number number) {
    for (const std::string& note : state::sweep_notes(*result, number))
      widgets::text_wrapped(context.palette.warning, note);
    widgets::text_wrapped(
        context.palette.muted,
        is_of_one_cell(*result)
            ? fmt::format("Curves stop below {} keys, where everything is kept.",
                          format_count(result->past))
            : fmt::format("A chunk with no more keys than the budget chooses nothing and is left "
                          "out: the lower numbers on the axis say how many cells remain, none at "
                          "{} keys.",
                          format_count(result->past)));
  }

  void plot_ui(DrawContext& context, const Curves& result, const std::vector<SweepStroke>& lines,
               Number number, ImVec2 size) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;
    const TickRoom room;
    if (!ImPlot::BeginPlot("##sweep", size, kFlags)) return;
    setup_axes(result, lines, number, size.y);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    sweep_targets_ui(context, number);
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
      sweep_curve_ui(context, *line, number);
    for (const state::Slot slot : state::kSlots) budget_now_ui(context, result.question, slot);
    ImPlot::PopPlotClipRect();
    if (ImPlot::IsPlotHovered() && !context.figure) point_at(context, result, lines, number);
    ImPlot::EndPlot();
  }

  void setup_axes(const Curves& result, const std::vector<SweepStroke>& lines, Number number,
                  float height) {
    const replay::NumberInfo& info = replay::info_of(number);
    std::string axis = fmt::format("{}: {}", info.title, info.brief);
    if (ImGui::CalcTextSize(axis.c_str()).x > height - widgets::em(5))
      axis = axis.substr(0, axis.find(':'));
    ImPlot::SetupAxes(is_of_one_cell(*result) ? "budget: keys kept per row"
                                              : "budget: keys kept per row (below: cells averaged)",
                      axis.c_str(), ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
    double low = 1, high = 0;
    for (const SweepStroke& line : lines)
      for (const SweepPoint& point : line.curve->points)
        if (const double value = point.value(number); sweep_has_place(number, value)) {
          low = std::min(low, value);
          high = std::max(high, value);
        }
    const auto coarse = analysis::coarse_budgets(result->past);
    std::int64_t first = coarse.front();  // two keys at least lie before the last chunk
    for (const SweepStroke& line : lines)
      for (const auto& enough : line.curve->enough_of(number))
        if (!line.bound) first = std::min(first, enough.value_or(first));
    const ImPlotCond fit =
        fit_.condition(fmt::format("{}|{}|{}", result.key, replay::name_of(number),
                                   result.state == state::ResultState::Ready));
    ImPlot::SetupAxisLimits(ImAxis_X1, static_cast<double>(first) * 0.85,
                            static_cast<double>(result->past) * 1.08, fit);
    if (!info.is_share()) {
      ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
      ImPlot::SetupAxisLimits(ImAxis_Y1, std::clamp(low * 0.7, 0.002, 0.007),
                              std::max(high * 1.4, 0.15), fit);
    } else {
      ImPlot::SetupAxisLimits(ImAxis_Y1, std::min(low, high) > 0.5 ? 0.48 : -0.02, 1.03, fit);
    }
    ticks(lines, first, result->past, !is_of_one_cell(*result));
  }

  // Powers of 2, each with the number of cells that the first curve averages there, where they are many.
  static void ticks(const std::vector<SweepStroke>& lines, std::int64_t from, std::int64_t past,
                    bool with_cells) {
    std::vector<double> at;
    std::vector<std::string> texts;
    const auto first = std::find_if(lines.begin(), lines.end(), [](const SweepStroke& line) {
      return line.curve->has_budget() && !line.curve->points.empty();
    });
    for (std::int64_t budget = 1; budget < past; budget *= 2) {
      if (budget < from) continue;
      std::string text = format_count(budget);
      if (with_cells && first != lines.end())
        for (const SweepPoint& point : first->curve->points)
          if (point.budget == budget) text = stacked(text, format_count(point.cells));
      at.push_back(static_cast<double>(budget));
      texts.push_back(std::move(text));
    }
    std::vector<const char*> labels;
    for (const std::string& text : texts) labels.push_back(text.c_str());
    ImPlot::SetupAxisTicks(ImAxis_X1, at.data(), static_cast<int>(at.size()), labels.data());
  }

  // Two lines, the shorter one moved to the middle of the other.
  static std::string stacked(const std::string& above, const std::string& below) {
    const auto width = [](const std::string& text) { return ImGui::CalcTextSize(text.c_str()).x; };
    const float spaces = (width(above) - width(below)) / 2 / width(" ");
    const std::string pad(static_cast<std::size_t>(std::abs(spaces)), ' ');
    return spaces > 0 ? above + "\n" + pad + below : pad + above + "\n" + below;
  }

  static void point_at(DrawContext& context, const Curves& result,
                       const std::vector<SweepStroke>& lines, Number number) {
    const ImVec2 mouse = ImGui::GetMousePos();
    float near = widgets::em(0.9F);
    const SweepStroke* line = nullptr;
    const SweepPoint* point = nullptr;
    for (const SweepStroke& candidate : lines)
      for (const SweepPoint& other : candidate.curve->points) {
        if (std::isnan(other.value(number))) continue;
        const ImVec2 at = ImPlot::PlotToPixels(sweep_budget_at(other), other.value(number));
        const float distance = std::hypot(at.x - mouse.x, at.y - mouse.y);
        if (distance >= near) continue;
        near = distance;
        line = &candidate;
        point = &other;
      }
    if (point == nullptr) return;
    const std::string asked =
        point->budget > 0 ? fmt::format("budget {} \u2192 ", format_count(point->budget)) : "";
    const std::string text = fmt::format(
        "{}\n{}{:.1f} kept (mean)\nmass recall {}   top-k overlap {}   output error {}\n"
        "{}, {} left out that fit whole",
        point->spec, asked, point->value(Number::EffectiveBudget),
        text_of(point->value(Number::MassRecall)), text_of(point->value(Number::TopkOverlap)),
        text_of(point->value(Number::OutputError)), cells_words(point->cells),
        format_count(point->dense_cells));
    std::vector<widgets::TooltipLine> words{{text}};
    if (line->curve->has_budget()) words.push_back({"click: show this budget", 0, true});
    widgets::tooltip(std::move(words));
    if (!plot_clicked() || result.stale || !line->curve->has_budget()) return;
    const state::Slot slot = line->slot.value_or(context.workspace.selection().shown);
    context.workspace.cursor.set_method(slot, point->spec);
  }

  // One chunk and one head: no mean is taken, and there is nothing to count.
  static bool is_of_one_cell(const BudgetSweepQuestion::Answer& answer) {
    return std::all_of(answer.curves.begin(), answer.curves.end(), [](const auto& curve) {
      return std::all_of(curve.points.begin(), curve.points.end(),
                         [](const SweepPoint& point) { return point.cells <= 1; });
    });
  }

  static std::string cells_words(std::int64_t cells) {
    return cells == 1 ? "of 1 cell" : fmt::format("mean of {} cells", format_count(cells));
  }

  static std::string text_of(double value) {
    return std::isnan(value) ? "\u2013" : fmt::format("{:.4g}", value);
  }

  static void enough_ui(DrawContext& context, const Curves& result,
                        const std::vector<SweepStroke>& lines, Number number) {
    heading_ui(context, "Smallest budget that is enough", result->exact ? "" : "of those computed");
    const replay::NumberInfo& info = replay::info_of(number);
    table::Table table{{{"method", fmt::format("{} of{}", info.heading,
                                               info.higher_is_better() ? "" : " at most")}},
                       {}};
    widgets::TableLook look{{2.9F}};
    for (const analysis::SweepTarget& target : kSweepTargets) {
      const std::string goal = fmt::format("{:g} %", 100 * analysis::goal_of(number, target));
      table.columns.emplace_back(goal, goal);
      look.weights.push_back(1.0F);
    }
    std::vector<ImU32> colors;
    bool all_reached = true;
    for (const SweepStroke& line : lines) {
      if (!line.curve->has_budget() || line.curve->points.empty()) continue;
      table.rows.push_back({line.label});
      for (const auto& enough : line.curve->enough_of(number)) {
        table.rows.back().push_back(enough);
        all_reached &= enough.has_value();
      }
      colors.push_back(line.color);
    }
    look.ink = [&](std::size_t row, std::size_t column) {
      return column == 0 ? colors[row] : context.palette.text;
    };
    if (!context.figure) look.pointer = &context.workspace.pointer;
    widgets::table_ui(context.palette, "##enough", table, look);
    widgets::text_wrapped(
        context.palette.muted,
        result->exact ? "All larger budgets tested reach it too." +
                            std::string(all_reached ? "" : " \u2013: no budget reaches it.")
        : result.question.wants_exact()
            ? "Being refined. \u2013: not reached by the budgets computed so far."
            : "From here on, among the budgets computed; scope head finds the exact one. \u2013: "
              "not "
              "reached.");
    if (number == Number::MassRecall && result->exact) jumps_ui(context, result, lines);
  }

  // Of A and B alone: the bounds jump at the same key.
  static void jumps_ui(DrawContext& context, const Curves& result,
                       const std::vector<SweepStroke>& lines) {
    for (const SweepStroke& line : lines) {
      if (!line.slot) continue;
      const auto question = state::sweep_jump_question(result.question, *line.curve);
      if (!question) continue;
      const auto jump = context.workspace.ask(*question);
      if (jump.state == state::ResultState::Error) failure_ui(context, jump.error);
      if (!jump) continue;
      const std::string words = state::words_of(*question, *jump, *line.curve);
      if (!words.empty()) widgets::text_wrapped(context.palette.muted, words);
    }
  }

  state::LastAnswer<BudgetSweepQuestion> shown_;
  ContentFit fit_;
};

}  // namespace

std::unique_ptr<Panel> make_budget_sweep_panel() { return std::make_unique<BudgetSweepPanel>(); }

}  // namespace kvloupe::panels
