// method_diff: a layer a row, a chunk a column, and how far A and B keep other keys there. A click goes
// to the cell.
#include "app/state/questions/kept/method_diff.h"

#include "app/panels/map_plot.h"
#include "app/panels/show_control.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace kvloupe::panels {
namespace {

using state::MethodDiffQuestion;
using state::Slot;
using DiffCell = MethodDiffQuestion::Cell;
using Diff = state::Result<MethodDiffQuestion>;

constexpr const char* kView = "method_diff";
constexpr float kListWidth = 18;  // em

// What a cell of this Jaccard index looks like: equal sets fade into the panel, and the cell that
// differs most is as bright as colours go.
double tone_of(double jaccard, double lowest) {
  return lowest < 1 ? (1 - jaccard) / (1 - lowest) : 0;
}
double lowest_of(const MethodDiffQuestion::Answer& answer) {
  if (answer.by_jaccard.empty()) return 0;
  return answer.cells[static_cast<std::size_t>(answer.by_jaccard.front())].jaccard;
}

class MethodDiffPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    std::string why;
    const MethodDiffQuestion question = state::method_diff_question(context.workspace, why);
    if (why.empty()) last_ = shown_.ask(context.workspace, question);
    if (!context.figure) controls_ui(context);
    const Diff& result = last_;
    head_ui(context, why.empty() ? result.question : question);
    if (!why.empty()) {
      widgets::empty_ui(context.palette, why);
      return;
    }
    if (!ready_ui(context, result, "Comparing what A and B keep")) return;
    if (result->cells.empty()) {
      widgets::empty_ui(context.palette,
                        "The two prompts have no token in common: choose another trace.");
      return;
    }
    divergence_ui(context, result);
    scale_ui(context, result);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool with_list = room.x > widgets::em(2.5F * kListWidth);
    const float list = with_list ? widgets::em(kListWidth + 1) : 0;
    map_ui(context, result, {room.x - list, std::max(room.y, widgets::em(9))});
    if (!with_list) return;
    ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("lowest", {0, 0}, ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
    lowest_ui(context, result);
    ImGui::EndChild();
  }

 private:
  // Where there is a second trace, or one is asked for.
  static void controls_ui(DrawContext& context) {
    const bool asked = context.workspace.option(kView, "beside") != "none";
    if (!asked && state::other_tabs(context.workspace).empty()) return;
    option_ui(context, kView, "beside", "compared", widgets::em(9));
    if (asked) other_trace_ui(context);
  }

  static void head_ui(DrawContext& context, const MethodDiffQuestion& question) {
    const std::vector<std::string> labels =
        state::labels_of(context.workspace, {question.a, question.b});
    std::vector<widgets::Chip> chips;
    for (const Slot slot : state::kSlots) {
      const state::MethodChoice& method = slot == Slot::A ? question.a : question.b;
      if (method.empty()) continue;
      const state::Place place = slot == Slot::A ? question.place : question.place_b();
      if (question.other) chips.push_back(trace_chip(context, place).front());
      const trace::RunInfo* const run = method.run_info(place.info());
      const char* const made = run == nullptr ? "selected anew, open loop"
                               : run->mode == trace::LoopMode::ClosedLoop ? "recorded, closed loop"
                                                                          : "recorded, open loop";
      chips.push_back(
          {fmt::format("{}: {}", state::letter_of(slot), labels[static_cast<std::size_t>(slot)]),
           widgets::color_of_slot(context.palette, slot),
           fmt::format("{}\n{}", state::readable_name(method.text), made)});
      chips.push_back({made, 0, "How the selection was made."});
    }
    const state::Place& place = question.place;
    for (widgets::Chip& chip : trace_chips(context, place)) chips.push_back(std::move(chip));
    widgets::figure_head_ui(
        context.palette, context.figure, "Where A and B keep other keys", "",
        fmt::format("{}  \u00B7  {}  \u00B7  Jaccard index of the kept keys, mean over the rows of "
                    "a layer and chunk",
                    place.trace->name, state::readable_name(place.info().model.name)),
        chips);
  }

  static void divergence_ui(DrawContext& context, const Diff& result) {
    const std::string words = state::words_of_divergence(result->diff);
    if (words.empty()) {
      const bool same = result.question.a == result.question.b && !result.question.other;
      widgets::text_wrapped(context.palette.text,
                            same ? "A and B are the same method: choose another as B."
                                 : "A and B keep the same keys everywhere.");
      return;
    }
    const replay::DiffRow& first = *result->diff.first_divergence();
    if (!result->by_jaccard.empty()) {
      const MethodDiffQuestion::Cell& most =
          result->cells[static_cast<std::size_t>(result->by_jaccard.front())];
      headline_ui(context,
                  fmt::format("They differ most in layer {}, {}: Jaccard {:.2f}.", most.layer,
                              chunk_name(result.question.place.info(), most.chunk), most.jaccard));
      if (!context.figure) {
        if (ImGui::SmallButton("Go there") && !result.stale) go(context, most.layer, most.chunk);
        ImGui::SameLine(0, widgets::em(0.6F));
        if (ImGui::SmallButton("First divergence") && !result.stale)
          go(context, first.layer, first.chunk, first.row * result->diff.layout.q_heads_per_row);
        ImGui::SameLine(0, widgets::em(0.6F));
      }
    }
    widgets::text_wrapped(context.palette.text, "First divergence: " + words + ".");
    using Shape = widgets::LegendItem::Shape;
    widgets::legend_ui(context.palette,
                       {{"differ most", context.palette.accent, Shape::Frame},
                        {"first divergence", context.palette.warning, Shape::Frame},
                        {"the cell shown", context.palette.text, Shape::Frame}});
  }

  static void scale_ui(DrawContext& context, const Diff& result) {
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "1: same keys",
                            fmt::format("{:.2f}: differ most", lowest_of(*result)), "Jaccard",
                            widgets::em(8));
    ImGui::SameLine(0, widgets::em(1));
    std::string text = fmt::format("{} of {} cells alike", format_count(result->same),
                                   format_count(std::ssize(result->cells)));
    const std::int64_t whole = std::ranges::count_if(result->cells, loses_nothing);
    if (whole > 0)
      text += whole == result->same
                  ? ", where both keep all attention"
                  : fmt::format(", {} where both keep all attention", format_count(whole));
    if (result.question.other)
      text += fmt::format(", {} tokens in both prompts", format_count(result->diff.aligned_tokens));
    widgets::text_colored(context.palette.muted,
                          widgets::elided(text, ImGui::GetContentRegionAvail().x));
  }

  static bool loses_nothing(const DiffCell& cell) {
    return cell.jaccard == 1 && cell.mass_a > 1 - 1e-6 && cell.mass_b > 1 - 1e-6;
  }

  void map_ui(DrawContext& context, const Diff& result, ImVec2 size) {
    const MethodDiffQuestion::Answer& answer = *result;
    MapPlotSpec spec;
    spec.id = "##difference";
    spec.x_label = state::chunk_axis(result.question.place.info());
    spec.y_label = "layer";
    spec.rows = static_cast<double>(answer.layers.size());
    spec.cols = static_cast<double>(answer.chunks.size());
    spec.size = size;
    spec.row_ticks = spec.col_ticks = true;
    spec.row_numbers = &answer.layers;
    spec.col_numbers = &answer.chunks;
    spec.content_key = result.key;
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill(context.palette, answer, window, pixels);
    };
    const auto hit = map_plot_ui(context, spec, texture_, [&] { marks_ui(context, result); });
    if (!hit) return;
    const DiffCell& cell =
        answer.at(std::min(static_cast<std::size_t>(hit->row), answer.layers.size() - 1),
                  std::min(static_cast<std::size_t>(hit->col), answer.chunks.size() - 1));
    state::Place there = result.question.place;
    there.layer = cell.layer;
    there.chunk = cell.chunk;
    context.workspace.pointer.at({.place = there});
    widgets::tooltip(
        {{tooltip(result.question.place, answer, cell)}, {"click: go there", 0, true}});
    if (hit->clicked && !result.stale) go(context, cell.layer, cell.chunk);
  }

  // The lowest of the cells that a pixel covers: one that differs is never lost.
  static void fill(const widgets::Palette& palette, const MethodDiffQuestion::Answer& answer,
                   const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    const analysis::Matrix& jaccard = answer.jaccard;
    const double least = lowest_of(answer);
    widgets::fill_pixels(window, jaccard.rows, jaccard.cols, pixels, [&](auto rows, auto columns) {
      float lowest = 1;
      for (std::int64_t r = rows.first; r < rows.second; ++r)
        for (std::int64_t c = columns.first; c < columns.second; ++c)
          lowest = std::min(lowest, jaccard.at(r, c));
      return widgets::sequential_color(palette, tone_of(lowest, least));
    });
  }

  // The place, the cell that differs most and the first divergence. Each with a line of the ground outside, so that it
  // stands out from light cells too; the inside of a cell stays free.
  static void marks_ui(DrawContext& context, const Diff& result) {
    const auto mark = [&](int layer, int chunk, ImU32 color) {
      frame_ui(*result, layer, chunk, context.palette.panel, -2);
      frame_ui(*result, layer, chunk, color, 0);
    };
    const state::Place& place = result.question.place;
    mark(place.layer, place.chunk, context.palette.text);
    if (const replay::DiffRow* first = result->diff.first_divergence())
      mark(first->layer, first->chunk, context.palette.warning);
    if (result->by_jaccard.empty()) return;
    const DiffCell& most = result->cells[static_cast<std::size_t>(result->by_jaccard.front())];
    mark(most.layer, most.chunk, context.palette.accent);
  }

  static void frame_ui(const MethodDiffQuestion::Answer& answer, int layer, int chunk, ImU32 color,
                       float inset) {
    const auto row = std::find(answer.layers.begin(), answer.layers.end(), layer);
    const auto column = std::find(answer.chunks.begin(), answer.chunks.end(), chunk);
    if (row == answer.layers.end() || column == answer.chunks.end()) return;
    const auto y = static_cast<double>(row - answer.layers.begin());
    const auto x = static_cast<double>(column - answer.chunks.begin());
    const ImVec2 from = ImPlot::PlotToPixels(x, y), to = ImPlot::PlotToPixels(x + 1, y + 1);
    ImPlot::PushPlotClipRect(3);
    ImPlot::GetPlotDrawList()->AddRect({from.x + inset, from.y + inset},
                                       {to.x - inset, to.y - inset}, color, 2.0F, 0, 2.0F);
    ImPlot::PopPlotClipRect();
  }

  static std::string tooltip(const state::Place& place, const MethodDiffQuestion::Answer& answer,
                             const DiffCell& cell) {
    return fmt::format(
        "layer {}, {}{}\nJaccard {:.3f}, mean over the {}s\nkept by both {}, only A {}, only B {}\n"
        "mean mass A {:.3f}, B {:.3f}",
        cell.layer, chunk_name(place.info(), cell.chunk),
        answer.diff.two_traces ? fmt::format(" ({} of B)", cell.chunk_b) : "", cell.jaccard,
        replay::words_of_axis(answer.diff.layout.axis), format_count(cell.both),
        format_count(cell.only_a), format_count(cell.only_b), cell.mass_a, cell.mass_b);
  }

  static void lowest_ui(DrawContext& context, const Diff& result) {
    {
      const widgets::FontScope strong(widgets::Type::Strong);
      widgets::text_colored(context.palette.text, "Differ most");
    }
    widgets::text_colored(context.palette.muted, "averaged over the rows of a cell");
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const auto fit =
        static_cast<std::size_t>(std::max(1.0F, ImGui::GetContentRegionAvail().y / line - 1));
    const std::size_t count = std::min({fit, result->by_jaccard.size(), std::size_t{20}});
    constexpr std::array kColumns{"layer", "chunk", "Jaccard", "mass A", "mass B"};
    if (!ImGui::BeginTable("##lowest", static_cast<int>(kColumns.size()),
                           ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH))
      return;
    for (const char* column : kColumns) ImGui::TableSetupColumn(column);
    ImGui::TableHeadersRow();
    for (std::size_t i = 0; i < count; ++i) {
      ImGui::PushID(static_cast<int>(i));
      cell_ui(context, result, result->cells[static_cast<std::size_t>(result->by_jaccard[i])]);
      ImGui::PopID();
    }
    ImGui::EndTable();
  }

  static void cell_ui(DrawContext& context, const Diff& result, const DiffCell& cell) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const std::string layer = fmt::format("{}", cell.layer);
    if (context.figure)
      widgets::text_colored(context.palette.text, layer);
    else if (ImGui::Selectable(layer.c_str(), false, ImGuiSelectableFlags_SpanAllColumns) &&
             !result.stale)
      go(context, cell.layer, cell.chunk);
    ImGui::TableNextColumn();
    widgets::text_colored(context.palette.text, fmt::format("{}", cell.chunk));
    const widgets::FontScope mono(widgets::Type::Number);
    for (const double value : {cell.jaccard, cell.mass_a, cell.mass_b}) {
      ImGui::TableNextColumn();
      widgets::text_colored(context.palette.muted, fmt::format("{:.3f}", value));
    }
  }

  static void go(DrawContext& context, int layer, int chunk, std::optional<int> q_head = {}) {
    context.workspace.cursor.change("", [&](state::Selection& s) {
      s.place.layer = layer;
      s.place.chunk = chunk;
      if (q_head) s.place.q_head = *q_head;
    });
  }

  state::LastAnswer<MethodDiffQuestion> shown_;
  Diff last_;
  widgets::MapTexture texture_;
};

}  // namespace

std::unique_ptr<Panel> make_method_diff_panel() { return std::make_unique<MethodDiffPanel>(); }

}  // namespace kvloupe::panels
