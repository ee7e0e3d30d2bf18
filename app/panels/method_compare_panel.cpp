// method_compare: the table of `kvloupe compare`, one row a method; a click makes a row A or B.
#include "app/state/questions/how_much/method_compare.h"

#include "app/panels/compare_plot.h"
#include "app/panels/view_frame.h"
#include "app/state/method_groups.h"
#include "app/state/number_text.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "app/widgets/slot_button.h"
#include "core/base/letters.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace kvloupe::panels {
namespace {

using state::CompareColumn;
using state::CompareOrder;
using state::MethodCompareQuestion;
using state::Slot;
using Row = MethodCompareQuestion::Row;
using Comparison = state::Result<MethodCompareQuestion>;

constexpr const char* kView = "method_compare";
constexpr float kWidth = 78;      // em, of the table
constexpr float kLeastLines = 6;  // of the table, its head among them
// em, of the plot beside the table, and between them
constexpr float kLeastBeside = 22, kMostBeside = 40, kGap = 1;

// Room for the column, in parts of the table.
float weight_of(const CompareColumn& column) {
  if (column.is_method()) return 5.0F;
  if (column.has_bar()) return 2.0F;
  return column.is_cells() ? 1.7F : 1.15F;
}

// Of all columns, which these take.
float weight_of(std::span<const CompareColumn> columns) {
  const auto sum = [](std::span<const CompareColumn> of) {
    float weight = 0;
    for (const CompareColumn& column : of) weight += weight_of(column);
    return weight;
  };
  return sum(columns) / sum(state::compare_columns());
}

class MethodComparePanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Comparison result =
        shown_.ask(context.workspace, state::method_compare_question(context.workspace));
    head_ui(context, result.question);
    option_ui(context, kView, "methods", "methods", widgets::em(8));
    option_beside_ui(context, kView, "layers", "layers", widgets::em(7));
    option_beside_ui(context, kView, "cells", "cells", widgets::em(7));
    if (!ready_ui(context, result, "Averaging the methods")) return;
    notes_ui(context, result);
    table_ui(context, result);
  }

 private:
  static trace::Phase phase_of(const Comparison& result) { return result.question.phase(); }

  static widgets::Chip loop_chip(const MethodCompareQuestion& question) {
    const trace::TraceInfo& info = question.place.info();
    const bool closed = std::ranges::any_of(question.methods, [&](const auto& method) {
      const trace::RunInfo* run = method.run_info(info);
      return run != nullptr && run->mode == trace::LoopMode::ClosedLoop;
    });
    return {closed ? "open and closed loop" : "open loop", 0,
            "Open loop: selected on the stored Q and K, the model did not attend to the selection. "
            "Closed loop: it did while it ran."};
  }

  static void head_ui(DrawContext& context, const MethodCompareQuestion& question) {
    const state::Place& place = question.place;
    const bool prefill = question.phase() == trace::Phase::Prefill;
    const std::string layers = question.all_layers
                                   ? fmt::format("all {} layers", place.info().layers.size())
                                   : fmt::format("layer {}", place.layer);
    const state::NumberChunks& chunks = question.chunks;
    const std::string steps = prefill ? "prefill chunks" : "decode steps";
    const std::string cells = chunks.range ? state::words_of(chunks, place.info()) : "all " + steps;
    std::vector<widgets::Chip> chips = trace_chips(context, place);
    chips.push_back(loop_chip(question));
    chips.push_back({layers, 0, "The layers averaged over."});
    chips.push_back({chunks.chosen ? cells : steps, 0,
                     chunks.chosen ? "Averaged over these: the choice of numbers in the bar above."
                                   : "Averaged over these; the current chunk says which."});
    if (!question.catalogue.empty())
      chips.push_back({"catalogue at " + state::words_of(question.catalogue), 0,
                       "Every method, selected anew on the stored Q and K, at the budget of "
                       "A; where that has none, at the one a window begins with."});
    if (question.watched) {
      const trace::NamedKeys& watched = *question.watched;
      const bool later =
          !chunks.chosen && replay::watched_from_question(watched.keys, place.info()).from > 0;
      chips.push_back({fmt::format("watched: {}{}", state::readable_name(watched.name),
                                   later ? ", from the question on" : ""),
                       0,
                       fmt::format("{}{}. A single key that is chosen is the miss inspector's.",
                                   capitalised(state::keys_words(watched.keys)),
                                   later ? ", in the question's chunk and all later ones" : "")});
    }
    const bool common = question.cells == replay::CellChoice::Common;
    widgets::figure_head_ui(
        context.palette, context.figure, "Methods compared", "",
        fmt::format("{}  \u00B7  {}  \u00B7  {}{}  \u00B7  means over the {} in which {} "
                    "selected, each row of heads alike",
                    place.trace->name, state::readable_name(place.info().model.name), layers,
                    chunks.chosen ? "  \u00B7  " + cells : "", steps,
                    common ? "every method" : "a method"),
        chips);
  }

  static void notes_ui(DrawContext& context, const Comparison& result) {
    const std::vector<Row>& rows = result->rows;
    const auto pending = std::ranges::count_if(rows, &Row::pending);
    if (context.figure)
      widgets::text_wrapped(context.palette.muted,
                            "mass recall, overlap, gap, watched, density: shares  \u00B7  output "
                            "error: relative to the "
                            "output's norm, bars end at the largest  \u00B7  budget, kept, by "
                            "rule: KVs a row and chunk");
    if (pending > 0)
      widgets::text_colored(context.palette.muted,
                            fmt::format("measuring: {} of {} methods to go", pending, rows.size()));
    const std::string warning = state::warning_of(result.question, *result, phase_of(result));
    if (!warning.empty()) widgets::text_wrapped(context.palette.warning, warning);
  }

  // All; in a figure that is too narrow for their numbers to be read the first ones.
  static std::span<const CompareColumn> columns_of(const DrawContext& context, float room) {
    const std::span<const CompareColumn> all(state::compare_columns());
    constexpr float kSmallest = 0.75F;  // of the text
    constexpr std::size_t kLeast = 4;
    const float share = room / widgets::em(kWidth) / kSmallest;
    if (!context.figure || share >= 1) return all;
    const auto fits = static_cast<std::size_t>(share * static_cast<float>(all.size()));
    return all.first(std::clamp(fits, kLeast, all.size()));
  }

  static std::string text_of(const Row& row, const CompareColumn& column, trace::Phase phase) {
    if (column.is_method()) return state::readable_name(row.method.text);
    if (row.averages == nullptr) return "\u2013";
    if (column.is_cells()) return format_count(row.in(phase).row.cells);
    const auto value = state::value_of(row, column, phase);
    if (!value) return "\u2013";
    return column.number != nullptr ? state::number_text(*column.number, *value)
                                    : format_count(std::llround(*value));
  }

  // In the window what is the same in every row is said once, above: beside the finding where it has room.
  static std::vector<CompareColumn> shown_columns(DrawContext& context, const Comparison& result,
                                                  const CompareOrder& order, bool found) {
    const float room = ImGui::GetContentRegionAvail().x;
    const auto columns = columns_of(context, room);
    std::vector<CompareColumn> shown(columns.begin(), columns.end());
    const bool pending = std::ranges::any_of(result->rows, &Row::pending);
    if (context.figure || pending || result->rows.size() < 2) return shown;
    const trace::Phase phase = phase_of(result);
    std::string said;
    std::erase_if(shown, [&](const CompareColumn& column) {
      if (column.is_method() || column.has_bar() || is_sorted_by(order, column)) return false;
      const std::string text = text_of(result->rows.front(), column, phase);
      const bool same = std::ranges::all_of(result->rows, [&](const Row& row) {
        return row.unavailable.empty() && text_of(row, column, phase) == text;
      });
      // What happens in no row needs no word, but for that no cell is averaged.
      if (same && (text != "0" || column.is_cells()))
        said += fmt::format("{}{} {}", said.empty() ? "" : ", ", column.title, text);
      return same;
    });
    if (said.empty()) return shown;
    said = "In every row: " + said + ".";
    if (found) beside_ui(widgets::em(1.2F), ImGui::CalcTextSize(said.c_str()).x);
    widgets::text_wrapped(context.palette.muted, said);
    return shown;
  }

  static bool is_sorted_by(const CompareOrder& order, const CompareColumn& column) {
    return std::string_view(column.name) == order.column->name;
  }

  // Which method keeps most of the watched keys, and how it stands by recall: the two need not agree.
  static bool finding_ui(DrawContext& context, const Comparison& result,
                         const std::vector<std::string>& labels) {
    const std::string text = state::finding_of(result.question, *result, labels);
    if (!text.empty()) headline_ui(context, text);
    return !text.empty();
  }

  struct TableRoom {
    ImVec2 outer;
    float inner = 0;  // its width, where it scrolls
    bool plot_beside = false;
  };

  // In the window. The plot stands below the table where it has room there, else beside it; where it has none
  // in either place, below a table of a few rows that scrolls, and the panel scrolls to it.
  static TableRoom room_of_table(DrawContext& context, const Comparison& result,
                                 const std::vector<std::string>& labels,
                                 std::span<const CompareColumn> columns) {
    TableRoom table;
    ImVec2 room = ImGui::GetContentRegionAvail();
    const float bar = ImGui::GetStyle().ScrollbarSize;
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y + 1;
    const float rows = line * static_cast<float>(result->rows.size() + 1);
    const float least = widgets::em(kWidth * weight_of(columns));
    const float plot = compare_plot_height(context, result, labels);
    const float side = room.x - least - bar - widgets::em(kGap);
    table.plot_beside = plot > 0 && rows + plot > room.y && side >= widgets::em(kLeastBeside);
    if (table.plot_beside) room.x -= std::min(side, widgets::em(kMostBeside)) + widgets::em(kGap);
    const float below = table.plot_beside ? 0 : plot;
    const float most = std::max(room.y - below, std::min(rows, line * kLeastLines));
    // As high as its rows and its scroll bar below them, with room for the other one beside them.
    const float scrolled = rows > most ? bar : 0;
    table.inner = std::max(room.x - scrolled, least);
    table.outer = {table.plot_beside ? room.x : 0,
                   std::min(most, rows + (least > room.x - scrolled ? bar : 2))};
    return table;
  }

  static void table_ui(DrawContext& context, const Comparison& result) {
    std::vector<state::MethodChoice> methods;
    for (const Row& row : result->rows) methods.push_back(row.method);
    const std::vector<std::string> labels = state::labels_of(context.workspace, methods);
    const bool found = finding_ui(context, result, labels);
    const CompareOrder order = state::compare_order(context.workspace);
    const std::vector<CompareColumn> columns = shown_columns(context, result, order, found);
    if (const std::size_t all = state::compare_columns().size();
        context.figure && columns.size() < all)
      widgets::text_colored(
          context.palette.muted,
          fmt::format("{} of {} columns: a wider figure has the others", columns.size(), all));
    const auto sorted = state::sorted_rows(*result, order, phase_of(result));
    const widgets::FontScope font(
        widgets::Type::Text, context.figure ? figure_scale(sorted.size(), columns.size()) : 1.0F);
    ImGuiTableFlags flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                            ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
    TableRoom room;
    if (!context.figure) {
      flags |= ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY;
      room = room_of_table(context, result, labels, columns);
    }
    if (!ImGui::BeginTable("##methods", static_cast<int>(columns.size()), flags, room.outer,
                           room.inner))
      return;
    if (!context.figure) ImGui::TableSetupScrollFreeze(1, 1);
    for (const CompareColumn& column : columns)
      ImGui::TableSetupColumn(column.title, ImGuiTableColumnFlags_WidthStretch, weight_of(column));
    header_ui(context, columns, order, result.question.watched);
    const double largest_error = largest_error_of(*result, phase_of(result));
    for (const std::size_t i : sorted) {
      ImGui::PushID(static_cast<int>(i));
      row_ui(context, columns, result, result->rows[i], labels[i], largest_error);
      ImGui::PopID();
    }
    if (!context.figure) point_at(context, result, columns, sorted, labels);
    ImGui::EndTable();
    if (room.plot_beside) ImGui::SameLine(0, widgets::em(kGap));
    compare_plot_ui(context, result, labels, room.plot_beside);
  }

  // The cell and the row that the mouse was over in the frame before, below the heads.
  static void point_at(DrawContext& context, const Comparison& result,
                       std::span<const CompareColumn> columns,
                       const std::vector<std::size_t>& sorted,
                       const std::vector<std::string>& labels) {
    const int line = ImGui::TableGetHoveredRow() - 1, column = ImGui::TableGetHoveredColumn();
    if (line < 0 || line >= static_cast<int>(sorted.size())) return;
    if (column < 0 || column >= static_cast<int>(columns.size())) return;
    const std::size_t i = sorted[static_cast<std::size_t>(line)];
    const Row& row = result->rows[i];
    const trace::Phase phase = phase_of(result);
    const auto text = [&](const CompareColumn& one) { return text_of(row, one, phase); };
    state::Pointed pointed;
    for (const CompareColumn& one : state::compare_columns())
      pointed.row += (pointed.row.empty() ? "" : "\t") + text(one);
    const CompareColumn& here = columns[static_cast<std::size_t>(column)];
    pointed.words =
        here.is_method() ? text(here) : fmt::format("{}: {} {}", labels[i], here.title, text(here));
    context.workspace.pointer.at(std::move(pointed));
  }

  // Small enough that every row and column fits the picture.
  static float figure_scale(std::size_t num_rows, std::size_t num_columns) {
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y + 1;
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float by_rows = room.y / (line * static_cast<float>(num_rows + 2));
    const float share =
        static_cast<float>(num_columns) / static_cast<float>(state::compare_columns().size());
    return std::clamp(std::min(by_rows, room.x / widgets::em(kWidth * share)), 0.5F, 1.15F);
  }

  // Where the bars of what is no share end.
  static double largest_error_of(const MethodCompareQuestion::Answer& answer, trace::Phase phase) {
    double largest = 0;
    for (const CompareColumn& column : state::compare_columns()) {
      if (!column.has_bar() || column.number->is_share()) continue;
      for (const Row& row : answer.rows)
        largest = std::max(largest, state::value_of(row, column, phase).value_or(0));
    }
    return largest;
  }

  // What is watched has a name.
  static std::string title_of(const CompareColumn& column,
                              const std::optional<trace::NamedKeys>& watched) {
    if (column.number == nullptr || column.number->number != replay::Number::SpanKept || !watched)
      return column.title;
    return widgets::elided(state::readable_name(watched->name), widgets::em(8)) + " kept";
  }

  static void header_ui(DrawContext& context, std::span<const CompareColumn> columns,
                        const CompareOrder& order, const std::optional<trace::NamedKeys>& watched) {
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (const CompareColumn& column : columns) {
      ImGui::TableNextColumn();
      const bool sorted = is_sorted_by(order, column);
      const char* arrow = !sorted ? "" : order.falling ? "\u00A0\u2193" : "\u00A0\u2191";
      const std::string title = title_of(column, watched) + arrow;
      if (context.figure) {  // it has no tooltip that would complete a head that is cut
        widgets::text_wrapped(context.palette.text, title);
        continue;
      }
      ImGui::TableHeader(fmt::format("{}###{}", title, column.name).c_str());
      if (ImGui::IsItemHovered() && *column.meaning != 0)
        widgets::tooltip("%s\nclick: sort by it", column.meaning);
      if (ImGui::IsItemClicked()) sort_by(context.workspace, column, sorted);
    }
  }

  static void sort_by(state::Workspace& workspace, const CompareColumn& column, bool again) {
    const bool reversed = workspace.option(kView, "order") == "reversed";
    workspace.cursor.change("option method_compare.sort", [&](state::Selection& s) {
      s.options["method_compare.sort"] = column.name;
      s.options["method_compare.order"] = again && !reversed ? "reversed" : "natural";
    });
  }

  static void row_ui(DrawContext& context, std::span<const CompareColumn> columns,
                     const Comparison& result, const Row& row, const std::string& label,
                     double largest_error) {
    ImGui::TableNextRow();
    for (const Slot slot : state::kSlots)
      if (result.question.is_row_of(context.workspace.method(slot), row))
        ImGui::TableSetBgColor(
            ImGuiTableBgTarget_RowBg1,
            widgets::with_alpha(widgets::color_of_slot(context.palette, slot), 0.10F));
    ImGui::TableNextColumn();
    method_ui(context, result, row, label);
    if (!row.unavailable.empty()) {
      reason_ui(context, row);
      return;
    }
    for (const CompareColumn& column : columns) {
      if (column.is_method()) continue;
      ImGui::TableNextColumn();
      if (row.pending())
        widgets::text_colored(context.palette.faint, "\u2026");
      else if (column.is_cells())
        cells_ui(context, row, phase_of(result));
      else
        value_ui(context, column, state::value_of(row, column, phase_of(result)), largest_error);
    }
  }

  static void method_ui(DrawContext& context, const Comparison& result, const Row& row,
                        const std::string& label) {
    const bool can_show = row.unavailable.empty();
    for (const Slot slot : state::kSlots) {
      if (context.figure)
        badge_ui(context, slot, result.question.is_row_of(context.workspace.method(slot), row));
      else if (can_show)
        slot_button_ui(context, result, row, slot);
      else
        continue;
      ImGui::SameLine(0, widgets::em(0.2F));
    }
    const trace::TraceInfo& info = result.question.place.info();
    const ImU32 ink = can_show ? context.palette.text : context.palette.faint;
    const float room = ImGui::GetContentRegionAvail().x;
    const float left = room - ImGui::CalcTextSize(label.c_str()).x;
    widgets::text_colored(ink, widgets::elided_label(label, room));
    if (!context.figure && ImGui::IsItemHovered())
      widgets::tooltip("%s%s", state::readable_name(row.method.text).c_str(),
                       row.method.known() || !can_show ? ""
                       : row.method.brought_in()
                           ? "\nbrought in: measured as recorded"
                           : "\nunknown to this version: measured as recorded");
    if (!can_show) return;
    // The name comes first: a tag that has no room is left out, but for what warns.
    const auto tag = [&](ImU32 color, const char* text) {
      if (color == context.palette.muted && left < widgets::em(4.5F)) return;
      ImGui::SameLine(0, widgets::em(0.6F));
      const widgets::FontScope small(widgets::Type::Caption);
      widgets::text_colored(color, text);
    };
    if (row.mode == trace::LoopMode::ClosedLoop) tag(context.palette.warning, "closed loop");
    if (row.method.recorded() && row.mode == trace::LoopMode::OpenLoop)
      tag(context.palette.muted, "recorded");
    if (row.leaks(info)) tag(context.palette.warning, "leakage");
  }

  static void slot_button_ui(DrawContext& context, const Comparison& result, const Row& row,
                             Slot slot) {
    const bool here = result.question.is_row_of(context.workspace.method(slot), row);
    if (!widgets::slot_button_ui(context.palette, slot, here) || result.stale) return;
    if (result.question.catalogue.empty())
      context.workspace.cursor.set_method(slot, row.method);
    else
      context.workspace.cursor.set_method(slot, row.method.text);
  }

  // What a button says, in a picture.
  static void badge_ui(DrawContext& context, Slot slot, bool here) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float side = ImGui::GetTextLineHeight();
    const std::string letter(1, state::letter_of(slot));
    if (here) {
      const ImU32 color = widgets::color_of_slot(context.palette, slot);
      const float width = ImGui::CalcTextSize(letter.c_str()).x;
      ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + side, at.y + side}, color, side * 0.2F);
      ImGui::GetWindowDrawList()->AddText({at.x + (side - width) / 2, at.y}, widgets::ink_on(color),
                                          letter.c_str());
    }
    ImGui::Dummy({side, side});
  }

  // Across the columns that would hold numbers.
  static void reason_ui(DrawContext& context, const Row& row) {
    ImGui::TableNextColumn();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 window = ImGui::GetWindowPos();
    const float right = window.x + ImGui::GetWindowWidth() - ImGui::GetStyle().WindowPadding.x;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->PushClipRect({at.x, window.y}, {right, window.y + ImGui::GetWindowHeight()});
    draw->AddText(
        at, context.palette.muted,
        widgets::elided("not here: " + row.unavailable, right - at.x - widgets::em(0.5F)).c_str());
    draw->PopClipRect();
    ImGui::Dummy({ImGui::GetContentRegionAvail().x, ImGui::GetTextLineHeight()});
    if (!context.figure && ImGui::IsItemHovered()) widgets::tooltip("%s", row.unavailable.c_str());
  }

  static void cells_ui(DrawContext& context, const Row& row, trace::Phase phase) {
    const MethodCompareQuestion::Means& means = row.in(phase);
    widgets::text_colored(
        means.differs ? context.palette.warning : context.palette.muted,
        fmt::format("{} of {}{}", format_count(means.row.cells), format_count(means.all_cells),
                    means.differs ? " \u2020" : ""));
    if (!context.figure && ImGui::IsItemHovered())
      widgets::tooltip("%s", state::words_of_cells(row, phase).c_str());
  }

  static void value_ui(DrawContext& context, const CompareColumn& column,
                       const std::optional<double>& value, double largest_error) {
    if (!value) {
      widgets::text_colored(context.palette.faint, "\u2013");
      return;
    }
    const std::string text = column.number != nullptr ? state::number_text(*column.number, *value)
                                                      : format_count(std::llround(*value));
    widgets::text_colored(context.palette.text, text);
    if (!column.has_bar()) return;
    // Bars begin below one another, whatever the digits take.
    ImGui::SameLine(0, widgets::em(3.4F) - ImGui::CalcTextSize(text.c_str()).x);
    const float room = ImGui::GetContentRegionAvail().x;
    if (room < widgets::em(1)) {
      ImGui::NewLine();
      return;
    }
    const bool share = column.number->is_share();
    const double part = share ? *value : largest_error > 0 ? *value / largest_error : 0;
    widgets::share_bar_ui(context.palette, part, share ? context.palette.hit : context.palette.miss,
                          room, widgets::em(0.5F));
  }

  state::LastAnswer<MethodCompareQuestion> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_method_compare_panel() {
  return std::make_unique<MethodComparePanel>();
}

}  // namespace kvloupe::panels
