// block_tables: what becomes of a block method's masks in one chunk, from top to bottom: the mask of
// each query head, the union over its query blocks, the union over the heads that share a row, and
// the table that attention reads. The transport bar moves from chunk to chunk.
#include "app/panels/block_metrics_table.h"
#include "app/panels/block_plots.h"
#include "app/state/labels.h"
#include "app/state/token_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::BlockReport;
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
    finding_ui(context, *result, result.question.place);
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

  // What each stage is dense to stands beside it.
  static void finding_ui(DrawContext& context, const BlockTablesQuestion::Answer& answer,
                         const state::Place& place) {
    const BlockReport& r = answer.report;
    const std::string mean = r.q_heads.size() == 1 ? "" : " (mean over the heads)";
    if (answer.reads_masks) {
      headline_ui(context,
                  fmt::format("Each query block reads its own mask: {} of the past{}.{}",
                              share_text(r.native.kept.past), mean, of_span(place, answer)));
      return;
    }
    const std::int64_t past = r.grid.num_past_blocks();
    headline_ui(
        context,
        fmt::format("The masks ask for {} of the past{}; {} is read: {} of {} block{}.{}",
                    share_text(r.native.kept.past), mean, share_text(r.read.kept.past),
                    answer.past_blocks_read, past, past == 1 ? "" : "s", of_span(place, answer)));
  }

  // ": query heads 3 and 5 ask for it", of the blocks from one to the other.
  static std::string who_asks(const BlockTablesQuestion::Answer& answer, std::int64_t from,
                              std::int64_t to) {
    const BlockReport& r = answer.report;
    const state::BlockStage& masks = answer.stages.front();
    const std::int64_t query_blocks = r.grid.num_query_blocks();
    std::vector<std::string> heads;
    bool by_rule = false;
    for (std::size_t head = 0; head < r.q_heads.size(); ++head) {
      bool asks = false;
      for (std::int64_t i = 0; i < query_blocks; ++i)
        for (std::int64_t block = from; block <= to; ++block) {
          const BlockState state =
              masks.at(r, static_cast<std::int64_t>(head) * query_blocks + i, block);
          asks |= state == BlockState::Kept || state == BlockState::Straddling;
          by_rule |= state == BlockState::Forced;
        }
      if (asks) heads.push_back(std::to_string(r.q_heads[head]));
    }
    const std::string things = from == to ? "it" : "them";
    if (heads.empty())
      return by_rule ? ": by rule" : fmt::format(": no query head asks for {}", things);
    if (!r.knows_forced) return "";  // what is kept may be so by rule
    if (heads.size() == 1)
      return fmt::format(": {}query head {} asks for {}", r.q_heads.size() > 1 ? "only " : "",
                         heads.front(), things);
    if (heads.size() == r.q_heads.size())
      return fmt::format(": all {} query heads ask for {}", heads.size(), things);
    const std::string last = heads.back();
    heads.pop_back();
    return fmt::format(": query heads {} and {} ask for {}", fmt::join(heads, ", "), last, things);
  }

  // " Of the 2 blocks of needle 1 is read: only query head 5 asks for them."
  static std::string of_span(const state::Place& place, const BlockTablesQuestion::Answer& answer) {
    const auto span = state::watched_span(place);
    if (!span || answer.stages.empty()) return "";
    const BlockReport& r = answer.report;
    const state::BlockStage& last = answer.stages.back();
    int blocks = 0, read = 0;
    std::int64_t first = 0, last_block = 0;
    for (std::int64_t block = 0; block < r.grid.num_past_blocks(); ++block) {
      if (r.grid.key_end(block) <= span->begin || r.grid.key_begin(block) >= span->end) continue;
      if (blocks++ == 0) first = block;
      last_block = block;
      bool kept = false;
      for (std::int64_t row = 0; row < last.rows; ++row)
        kept |= last.at(r, row, block) != BlockState::Dropped;
      read += kept;
    }
    if (blocks == 0) return "";
    const std::string name = state::readable_name(span->name);
    const std::string who = who_asks(answer, first, last_block);
    if (blocks == 1)
      return fmt::format(" The block of {} is {}{}.", name, read ? "read" : "not read", who);
    return fmt::format(" Of the {} blocks of {} {} {} read{}.", blocks, name,
                       read == 0 ? "none" : std::to_string(read), read <= 1 ? "is" : "are", who);
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
