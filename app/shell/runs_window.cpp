#include "app/shell/runs_window.h"

#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/slot_button.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/span_kept.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::shell {

using state::MethodChoice;
using state::Slot;
using Summary = state::Result<state::RunSummaryQuestion>;
using Run = state::Result<state::RunQuestion>;

namespace {

// The watched keys, once some of them lie before the last of the chunks.
std::optional<trace::TokenSpan> watched_before(const state::Place& place,
                                               const state::NumberChunks& counted) {
  const auto span = state::watched_span(place);
  const auto& chunks = place.info().chunks;
  if (chunks.empty()) return std::nullopt;
  const auto last =
      counted.range ? static_cast<std::size_t>(counted.range->last) : chunks.size() - 1;
  if (!span || span->begin >= chunks.at(last).begin) return std::nullopt;
  return span;
}

// Of the span's keys in all chunks that count, by a row of heads.
replay::SpanCount count_in(const replay::ReplayResult& run, std::size_t row,
                           const replay::KeySpan& span, const state::NumberChunks& chunks) {
  replay::SpanCount sum;
  for (const replay::ReplayCell& cell : run.cells) {
    if (!chunks.has(cell.chunk) || row >= cell.rows.size()) continue;
    const replay::SpanCount here = replay::count_in_span(cell, row, span);
    sum.kept += here.kept;
    sum.candidates += here.candidates;
  }
  return sum;
}

// Else why nothing is drawn.
template <typename Result>
bool is_here(const widgets::Palette& palette, const Result& result) {
  if (result.state == state::ResultState::Error) {
    widgets::text_colored(palette.faint, "failed");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", result.error.c_str());
    return false;
  }
  if (result && !result.stale) return true;
  widgets::text_colored(palette.faint, "\u2026");
  return false;
}

void share_ui(const widgets::Palette& palette, double share, const std::string& words) {
  widgets::share_bar_ui(palette, share, palette.hit, widgets::em(3), widgets::em(0.4F));
  ImGui::SameLine(0, widgets::em(0.3F));
  widgets::text_colored(palette.muted, words);
}

std::string mass_text(const Summary& summary) {
  std::string text =
      fmt::format("\nlayer {}, {}:", summary.question.place.layer,
                  state::words_of(summary.question.chunks, summary.question.place.info()));
  const auto recall = summary->numbers[replay::Number::MassRecall];
  const auto kept = summary->numbers[replay::Number::EffectiveBudget];
  if (recall) text += fmt::format(" mass recall {:.2f}", *recall);
  if (kept)
    text += fmt::format(", {} keys kept in those that selected", format_count(std::llround(*kept)));
  return text;
}

}  // namespace

void RunsWindow::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  if (workspace.has_trace()) rows_ui(workspace, palette);
}

void RunsWindow::rows_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const state::Place place = workspace.place();
  // What is kept of a span is of the chunk shown, unless something else is chosen.
  chunks_ = state::number_chunks(workspace);
  spans_ = state::number_chunks(workspace, state::NumberScope::Kind::Chunk);
  watched_ = watched_before(place, spans_);
  widgets::text_wrapped(palette.muted, watched_
                                           ? fmt::format("{}, KV head {}: {} kept",
                                                         state::words_of(spans_, place.info()),
                                                         place.kv_head(), printable(watched_->name))
                                           : fmt::format("layer {}: mass recall, {}", place.layer,
                                                         state::words_of(chunks_, place.info())));
  const std::vector<MethodChoice> recorded = workspace.traces.ready()->recorded;
  const std::vector<MethodChoice> tried = workspace.traces.ready()->tried;
  int index = 0;
  for (const MethodChoice& method : recorded) row_ui(workspace, palette, method, index++);
  if (!tried.empty()) ImGui::SeparatorText("tried here");
  for (const MethodChoice& method : tried) row_ui(workspace, palette, method, index++);
  if (recorded.empty() && tried.empty())
    widgets::text_wrapped(palette.muted,
                          "No run was recorded; the methods above are selected anew.");
}

void RunsWindow::row_ui(state::Workspace& workspace, const widgets::Palette& palette,
                        const MethodChoice& method, int index) {
  ImGui::PushID(index);
  for (const Slot slot : state::kSlots) {
    if (widgets::slot_button_ui(palette, slot, workspace.method(slot) == method))
      workspace.cursor.set_method(slot, method);
    ImGui::SameLine(0, widgets::em(0.2F));
  }
  const trace::RunInfo* run = method.run_info(workspace.place().info());
  const bool closed = run != nullptr && run->mode == trace::LoopMode::ClosedLoop;
  const float worth = widgets::em(7.5F);
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string name = state::short_label(method) + (closed ? "  closed loop" : "");
  if (ImGui::Selectable(
          fmt::format("{}###name", widgets::elided(name, std::max(worth, room - worth))).c_str(),
          false, 0, {std::max(worth, room - worth), 0}))
    workspace.cursor.set_method(ImGui::GetIO().KeyCtrl ? Slot::B : Slot::A, method);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip(
        "%s%s%s\nclick: show as A; Ctrl+click: as B", state::readable_name(method.text).c_str(),
        method.known() ? "" : "\nunknown to this version: shown as recorded",
        run != nullptr && run->basis_leakage ? "\nleakage: its basis was fitted on this text" : "");
  ImGui::SameLine(0, widgets::em(0.3F));
  worth_ui(workspace, palette, method);
  ImGui::PopID();
}

void RunsWindow::worth_ui(state::Workspace& workspace, const widgets::Palette& palette,
                          const MethodChoice& method) {
  const auto summary = worth_[method.key()].ask(workspace, {workspace.place(), method, chunks_});
  if (!watched_) return mass_ui(palette, summary);
  const state::Place place = workspace.place();
  watched_ui(palette, place, kept_[method.key()].ask(workspace, {place, method}), summary);
}

void RunsWindow::mass_ui(const widgets::Palette& palette, const Summary& summary) {
  if (!is_here(palette, summary)) return;
  const auto recall = summary->numbers[replay::Number::MassRecall];
  if (!recall) return widgets::text_colored(palette.faint, "keeps all");
  share_ui(palette, *recall, fmt::format("{:.2f}", *recall));
  if (ImGui::IsItemHovered() && summary->numbers[replay::Number::EffectiveBudget])
    ImGui::SetTooltip("%s", mass_text(summary).c_str());
}

void RunsWindow::watched_ui(const widgets::Palette& palette, const state::Place& place,
                            const Run& run, const Summary& summary) {
  if (!is_here(palette, run)) return;
  const replay::SpanCount count =
      count_in(*run, static_cast<std::size_t>(state::row_of(place, *run)),
               {watched_->begin, watched_->end}, spans_);
  if (count.candidates == 0) return widgets::text_colored(palette.faint, "out of sight");
  const std::string words = fmt::format("{}/{}", count.kept, count.candidates);
  share_ui(palette, static_cast<double>(count.kept) / static_cast<double>(count.candidates), words);
  if (!ImGui::IsItemHovered()) return;
  const std::string mass = summary && !summary.stale ? mass_text(summary) : "";
  ImGui::SetTooltip("%s keys of %s are kept here%s", words.c_str(),
                    printable(watched_->name).c_str(), mass.c_str());
}

}  // namespace kvloupe::shell
