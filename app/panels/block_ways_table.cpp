// See block_ways_table.h.
#include "app/panels/block_ways_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace kvloupe::panels {
namespace {

using replay::BlockWay;
using state::BlockTablesQuestion;
using state::BlockTimesQuestion;
using state::BlockWaysQuestion;
using Worths = state::Result<BlockWaysQuestion>;
using Times = state::Result<BlockTimesQuestion>;

constexpr const char* kUnknown = "\u2013";

std::string label_of(BlockWay way, std::size_t heads) {
  switch (way) {
    case BlockWay::Native:
      return "native: each query block its own mask";
    case BlockWay::QueryUnion:
      return "union over the query blocks, by head";
    case BlockWay::HeadUnion:
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

void row_ui(DrawContext& context, const std::string& label,
            const std::array<std::string, 4>& numbers, bool read) {
  const auto& p = context.palette;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const widgets::FontScope font(read ? widgets::fonts().strong : widgets::fonts().body, 1.0F);
  widgets::text_colored(read ? p.text : p.muted,
                        widgets::elided(label, ImGui::GetContentRegionAvail().x));
  for (const std::string& number : numbers) {
    ImGui::TableNextColumn();
    widgets::text_colored(number == kUnknown ? p.faint : p.text, number);
  }
}

std::array<std::string, 4> numbers_of(const Worths& worths, const Times& times, std::size_t way) {
  std::array<std::string, 4> numbers;
  numbers.fill(kUnknown);
  if (worths) {
    const replay::WayWorth& worth = (*worths)[way];
    numbers[0] = percent(worth.density);
    numbers[1] = fmt::format("{:.4f}", worth.mass_recall);
    numbers[2] = fmt::format("{:.4f}", worth.output_error);
  }
  if (times) numbers[3] = fmt::format("{:.3g} ms", times->attend[way].median_ms);
  return numbers;
}

// What the method shown reads. Where a budget ranks blocks, it reads none of the three ways.
bool is_read(const BlockTablesQuestion::Answer& answer, BlockWay way) {
  if (answer.reads_masks) return way == BlockWay::Native;
  return way == BlockWay::HeadUnion && !answer.facts.requested_budget;
}

}  // namespace

void block_ways_ui(DrawContext& context, const Tables& result) {
  const state::Place& place = result.question.place;
  const state::MethodChoice& method = result.question.method;
  const Worths worths = context.workspace.ask(BlockWaysQuestion{place, method});
  const Times times = context.workspace.ask(BlockTimesQuestion{place, method});
  if (worths.state == state::ResultState::Error) {
    widgets::text_wrapped(context.palette.warning, worths.error);
    return;
  }
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  const float width = std::min(ImGui::GetContentRegionAvail().x, widgets::em(56));
  if (ImGui::BeginTable("##block ways", 5, kFlags, {width, 0})) {
    ImGui::TableSetupColumn("attention reads", ImGuiTableColumnFlags_WidthStretch, 3.2F);
    for (const char* column : {"of the past", "mass recall", "output error", "time"})
      ImGui::TableSetupColumn(column, ImGuiTableColumnFlags_WidthStretch, 1.0F);
    ImGui::TableHeadersRow();
    for (std::size_t way = 0; way < replay::kBlockWays.size(); ++way)
      row_ui(context, label_of(replay::kBlockWays[way], result->report.q_heads.size()),
             numbers_of(worths, times, way), is_read(*result, replay::kBlockWays[way]));
    ImGui::EndTable();
  }
  timing_ui(context, times);
  ImGui::Dummy({0, widgets::em(0.3F)});
}

}  // namespace kvloupe::panels
