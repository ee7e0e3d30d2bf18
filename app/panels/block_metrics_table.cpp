// See block_metrics_table.h.
#include "app/panels/block_metrics_table.h"

#include "app/widgets/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace kvloupe::panels {
namespace {

using replay::BlockExecution;
using state::BlockMetricsQuestion;
using state::BlockTablesQuestion;
using state::BlockTimesQuestion;
using Worths = state::Result<BlockMetricsQuestion>;
using Times = state::Result<BlockTimesQuestion>;

std::string label_of(BlockExecution way, std::size_t heads) {
  switch (way) {
    case BlockExecution::Native: return "native: each query block its own mask";
    case BlockExecution::QueryUnion: return "union over the query blocks, by head";
    case BlockExecution::HeadUnion:
      return heads == 1 ? "one head: the same union" : "union over the heads too";
  }
  return {};
}

std::string times_text(const Times& times) {
  std::string text =
      fmt::format("attention alone, median of {} rounds", times->attend.front().samples);
  if (times->discarded > 0) text += fmt::format(", {} discarded (busy machine)", times->discarded);
  return text;
}

void timing_ui(DrawContext& context, const Times& times) {
  state::Answers& answers = context.workspace.answers;
  if (!context.figure && times.note.empty()) {
    if (times.state == state::ResultState::Loading) {
      if (ImGui::Button("Stop##block times")) answers.stop_measuring();
    } else if (!answers.measuring() && ImGui::Button("Time##block times")) {
      answers.start(times.question);
    }
    ImGui::SameLine();
  }
  const std::string text = times.state == state::ResultState::Loading ? "timing; other work waits"
                           : times.state == state::ResultState::Error ? times.error
                           : times                                    ? times_text(times)
                                                                      : "not timed yet";
  widgets::text_colored(context.palette.muted,
                        widgets::elided(text, ImGui::GetContentRegionAvail().x));
}

table::Table table_of(const BlockTablesQuestion::Answer& answer, const Worths& worths,
                      const Times& times) {
  table::Table table{{{"way", "attention reads"},
                      {"of_past", "of the past", "%", 1},
                      replay::Number::MassRecall,
                      replay::Number::OutputError},
                     {}};
  if (times) table.columns.push_back({"time", "time", "ms", -3});  // once there are some
  for (std::size_t way = 0; way < replay::kBlockExecutions.size(); ++way) {
    std::vector<table::Cell>& row = table.rows.emplace_back(std::vector<table::Cell>{
        label_of(replay::kBlockExecutions[way], answer.report.q_heads.size())});
    row.resize(4,
               worths.state == state::ResultState::Loading ? table::Cell("\u2026") : table::Cell());
    if (worths) {
      const replay::BlockMetrics& worth = (*worths)[way];
      row[1] = worth.density;
      row[2] = worth.mass_recall;
      row[3] = worth.output_error;
    }
    if (times) row.emplace_back(times->attend[way].median_ms);
  }
  return table;
}

// What the method shown reads. Where a budget ranks blocks, it reads none of the three ways.
bool is_read(const BlockTablesQuestion::Answer& answer, BlockExecution way) {
  if (answer.reads_masks) return way == BlockExecution::Native;
  return way == BlockExecution::HeadUnion && !answer.facts.requested_budget;
}

}  // namespace

void block_metrics_ui(DrawContext& context, const Tables& result) {
  const state::Place& place = result.question.place;
  const state::MethodChoice& method = result.question.method;
  const Worths worths = context.workspace.ask(BlockMetricsQuestion{place, method});
  const Times times = context.workspace.ask(BlockTimesQuestion{place, method});
  if (worths.state == state::ResultState::Error) {
    widgets::text_wrapped(context.palette.warning, worths.error);
    return;
  }
  const table::Table table = table_of(*result, worths, times);
  widgets::TableLook look;
  look.weights = {3.2F, 1, 1, 1};
  if (times) look.weights.push_back(1);
  look.size.x = std::min(ImGui::GetContentRegionAvail().x, widgets::em(56));
  look.strong = [&](std::size_t row) { return is_read(*result, replay::kBlockExecutions[row]); };
  look.ink = [&](std::size_t row, std::size_t column) {
    return column > 0 || look.strong(row) ? context.palette.text : context.palette.muted;
  };
  if (!context.figure) look.pointer = &context.workspace.pointer;
  widgets::table_ui(context.palette, "##block ways", table, look);
  timing_ui(context, times);
  ImGui::Dummy({0, widgets::grid(0.5F)});
}

}  // namespace kvloupe::panels
