// block_tables: what becomes of a block method's masks in one chunk, from top to bottom: the mask of
// each query head, the union over its query blocks, the union over the heads that share a row, and
// the table that attention reads. The transport bar moves from chunk to chunk.
#include "app/panels/block_metrics_table.h"
#include "app/panels/block_plots.h"
#include "app/state/labels.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::BlockState;
using state::BlockTablesQuestion;

constexpr std::array kLegendOrder{BlockState::Kept, BlockState::Forced, BlockState::Straddling,
                                  BlockState::Current, BlockState::Dropped};

class BlockTablesPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const BlockTablesQuestion question = state::block_tables_question(context.workspace);
    const Tables result = shown_.ask(context.workspace, question);
    const char* title = "Block tables";
    if (!stand_in_ready_ui(context, title, question, result, "Selecting blocks, chunk by chunk"))
      return;
    head_ui(context, title, result);
    ready_ui(context, result, "");
    for (const std::string& note : result->notes)
      widgets::text_wrapped(context.palette.warning, note);
    if (!result->nothing.empty()) {
      widgets::empty_ui(context.palette, result->nothing);
      return;
    }
    headline_ui(context, state::block_tables_finding(*result, result.question.place));
    if (!result.stale) block_metrics_ui(context, result);
    legend_ui(context, *result);
    ImGui::Dummy({0, widgets::em(0.9F)});  // for the names of spans above the blocks
    plots_.draw(context, result);
  }

 private:
  static void head_ui(DrawContext& context, const char* title, const Tables& result) {
    std::vector<widgets::Chip> blocks;
    if (result->nothing.empty())
      blocks.push_back(
          {fmt::format("blocks of {}", result->report.grid.block_size), 0, "Tokens in a block."});
    stand_in_head_ui(context, title, result.question.place, result->facts, result.question.stand_in,
                     blocks);
  }

  static void legend_ui(DrawContext& context, const BlockTablesQuestion::Answer& answer) {
    std::vector<widgets::LegendItem> items;
    for (const BlockState state : kLegendOrder)
      if (answer.present[static_cast<std::size_t>(state)])
        items.push_back({state == BlockState::Kept && !answer.report.knows_forced
                             ? "kept (by score or by rule)"
                             : state::label_of(state),
                         widgets::color_of(context.palette, state)});
    widgets::legend_ui(context.palette, items);
  }

  state::LastAnswer<BlockTablesQuestion> shown_;
  BlockPlots plots_;
};

}  // namespace

std::unique_ptr<Panel> make_block_tables_panel() { return std::make_unique<BlockTablesPanel>(); }

}  // namespace kvloupe::panels
