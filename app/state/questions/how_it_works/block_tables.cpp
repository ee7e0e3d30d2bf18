#include "app/state/questions/how_it_works/block_tables.h"

#include "app/state/labels.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvloupe::state {
namespace {

using replay::BlockReport;
using replay::BlockState;
using Answer = BlockTablesQuestion::Answer;

// A picture waits for the numbers beside the masks too, but can do without them.
std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(block_tables_question(workspace));
  if (!result || !result->nothing.empty()) return result ? result->nothing : problem_of(result);
  const BlockTablesQuestion& shown = result.question;
  if (workspace.ask(BlockMetricsQuestion{shown.place, shown.method}).state == ResultState::Loading)
    return "the unions are not measured yet";
  // Nothing computes while something is timed.
  const BlockTimesQuestion times{shown.place, shown.method};
  const auto timed = workspace.ask(times);
  const bool not_begun = timed.state == ResultState::Empty && timed.note.empty();
  if (not_begun) workspace.answers.start(times);
  return not_begun || timed.state == ResultState::Loading ? "the measurement has not finished" : "";
}

// Recall, output error and milliseconds of the attention that reads the stage, as far as they are
// known.
std::vector<Cell> worth_of(Workspace& workspace, const BlockTablesQuestion& question,
                           const BlockStage& stage) {
  if (!stage.way) return {{}, {}, {}};
  const auto at = static_cast<std::size_t>(*stage.way);
  const auto worths = workspace.ask(BlockMetricsQuestion{question.place, question.method});
  const auto times = workspace.ask(BlockTimesQuestion{question.place, question.method});
  return {worths ? Cell((*worths)[at].mass_recall) : Cell(),
          worths ? Cell((*worths)[at].output_error) : Cell(),
          times ? Cell(times->attend[at].median_ms) : Cell()};
}

void add_rows(const Answer& answer, const BlockStage& stage, const std::vector<Cell>& worth,
              Table& table) {
  const BlockReport& r = answer.report;
  const replay::StageDensity& density = r.*stage.density;
  const std::int64_t query_blocks = r.grid.num_query_blocks();
  const auto forced = [&](double share) { return r.knows_forced ? Cell(share) : Cell(); };
  for (std::int64_t row = 0; row < stage.rows; ++row)
    for (std::int64_t j = 0; j < r.grid.num_key_blocks(); ++j) {
      const BlockState state = stage.at(r, row, j);
      if (state == BlockState::Future) continue;
      const auto head = static_cast<std::size_t>(stage.of_masks() ? row / query_blocks : row);
      table.rows.push_back(
          {stage.id, stage.of_masks() || stage.rows > 1 ? Cell(r.q_heads[head]) : Cell(),
           stage.of_masks() ? Cell(r.grid.block_of_query_block(row % query_blocks)) : Cell(), j,
           r.grid.key_begin(j), r.grid.key_end(j), trace::page_id(r.grid, answer.kv_head, j),
           label_of(state), density.kept.past, density.kept.causal, density.kept.rectangle,
           forced(density.forced.past), forced(density.forced.causal),
           forced(density.forced.rectangle)});
      table.rows.back().insert(table.rows.back().end(), worth.begin(), worth.end());
    }
}

Table table(Workspace& workspace) {
  Table table{{"stage", "q_head", "query_block", "key_block", "token_begin", "token_end", "page_id",
               "state", "density_past", "density_causal", "density_rectangle", "forced_past",
               "forced_causal", "forced_rectangle", "mass_recall", "output_error", "attend_ms"},
              {}};
  const auto result = workspace.ask(block_tables_question(workspace));
  if (!result) return table;
  for (const BlockStage& stage : result->stages)
    add_rows(*result, stage, worth_of(workspace, result.question, stage), table);
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(block_tables_question(workspace));
  if (!result || !result->nothing.empty()) return {};
  const BlockReport& r = result->report;
  return array_of("|u1",
                  {static_cast<std::int64_t>(r.q_heads.size()), r.grid.num_query_blocks(),
                   r.grid.num_key_blocks()},
                  r.mask);
}

std::vector<BlockStage> stages_of(const BlockReport& r, bool reads_masks) {
  const auto heads = static_cast<std::int64_t>(r.q_heads.size());
  const std::int64_t query_blocks = r.grid.num_query_blocks();
  const std::string names =
      heads == 1 ? fmt::format("query head {}", r.q_heads.front())
                 : fmt::format("query heads {} to {}", r.q_heads.front(), r.q_heads.back());
  std::vector<BlockStage> stages = {
      {"mask",
       query_blocks == 1 ? "Masks of " + names
                         : fmt::format("Masks of {}, {} query blocks each", names, query_blocks),
       heads * query_blocks, &BlockReport::native, &BlockReport::mask,
       replay::BlockExecution::Native},
      {"query_union", "United over the query blocks of the chunk", heads,
       &BlockReport::after_query_union, &BlockReport::query_union,
       replay::BlockExecution::QueryUnion},
      {"group_union", heads == 1 ? "One head: nothing to unite" : "United over these heads", 1,
       &BlockReport::after_group_union, &BlockReport::group_union,
       replay::BlockExecution::HeadUnion}};
  if (!reads_masks)
    stages.push_back(
        {"table", "What is read: this chunk is open", 1, &BlockReport::read, &BlockReport::table});
  BlockStage* last = &stages.front();  // that differs from the one above it
  for (std::size_t i = 1; i < stages.size(); ++i) {
    stages[i].changes =
        stages[i].rows != stages[i - 1].rows || r.*stages[i].states != r.*stages[i - 1].states;
    if (stages[i].changes) last = &stages[i];
  }
  if (!reads_masks && last != &stages.back()) last->title += ": what is read";
  return stages;
}

// What the rows of these heads keep together, ascending.
std::vector<std::int32_t> keys_of(const replay::ReplayCell& cell, HeadRange heads,
                                  int q_heads_per_row) {
  std::vector<std::int32_t> keys;
  for (int head = heads.first; head < heads.first + heads.count; head += q_heads_per_row) {
    const auto& row = cell.rows[static_cast<std::size_t>(head / q_heads_per_row)].positions;
    std::vector<std::int32_t> merged;
    std::set_union(keys.begin(), keys.end(), row.begin(), row.end(), std::back_inserter(merged));
    keys = std::move(merged);
  }
  return keys;
}

// Why a cell has no masks; empty: it has.
std::string why_nothing(const replay::ReplayCell* cell) {
  if (cell == nullptr) return "This run has nothing for the chunk.";
  if (cell->blocks) return {};
  if (!cell->dense_reason)
    return "This run was recorded without the masks of its query heads: select its method anew.";
  return *cell->dense_reason == trace::DenseReason::EmptyPast
             ? "The first chunk has no past: every block is read. Step to a later chunk."
             : "The method decodes densely: every block is read. Step to a chunk of the prompt.";
}

// A recorded run of blocks is shown also where this version does not know its method.
bool chooses_blocks(const MethodChoice& method, const Place& place) {
  if (method.known()) return method.spec->info().granularity == trace::Granularity::Block;
  const trace::RunInfo* run = method.run_info(place.info());
  return run != nullptr && run->granularity == trace::Granularity::Block;
}

}  // namespace

std::string BlockTablesQuestion::title() const {
  return fmt::format("Selecting blocks in layer {}", place.layer);
}

BlockTablesQuestion::Answer BlockTablesQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  const replay::ReplayCell* cell = run->find(place.layer, place.chunk);
  Answer answer;
  answer.facts = facts_of(place, method, *run);
  answer.notes = run->notes;
  answer.nothing = why_nothing(cell);
  if (!answer.nothing.empty()) return answer;
  if (place.info().model.softmax_of(place.layer).window > 0)
    throw input_error(fmt::format("the blocks of layer {} cannot be shown", place.layer),
                      "its queries see a window of keys, and densities count pairs by whole blocks",
                      "choose a layer without a window");
  const int group = place.info().model.gqa_group_size();
  const HeadRange heads = united_heads(place, *run);
  answer.kv_head = heads.first / group;
  answer.reads_masks = cell->reads_masks;
  answer.report = replay::block_report(*cell->blocks, keys_of(*cell, heads, run->q_heads_per_row),
                                       heads.first, heads.count, group);
  const BlockReport& r = answer.report;
  answer.stages = stages_of(r, answer.reads_masks);
  for (const BlockStage& stage : answer.stages)
    for (const BlockState state : r.*stage.states)
      answer.present[static_cast<std::size_t>(state)] = true;
  answer.past_blocks_read =
      std::lower_bound(r.pages.begin(), r.pages.end(), r.grid.num_past_blocks()) - r.pages.begin();
  return answer;
}

BlockTablesQuestion block_tables_question(const Workspace& workspace) {
  BlockTablesQuestion question{workspace.place(), workspace.method(), {}};
  if (question.place.empty() || chooses_blocks(question.method, question.place)) return question;
  const MethodChoice chosen = question.method;
  question.method = choice_anew(
      selection::MethodSpec::parse("compact_attention").resolved(question.place.trace->shape()));
  if (!chosen.empty())
    question.stand_in = fmt::format(
        "{} chooses no blocks: shown is compact_attention with its defaults.", chosen.id());
  return question;
}

ViewInfo block_tables_view() {
  return ViewInfo{"block_tables", "Block tables",
                  "from block masks over their unions to the table that attention reads",
                  "How much is kept"}
      .follow(At::Cell)
      .on_paper(1.15F)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
