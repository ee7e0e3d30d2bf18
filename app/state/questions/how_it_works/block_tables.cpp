#include "app/state/questions/how_it_works/block_tables.h"

#include "app/state/labels.h"
#include "app/state/questions/how_it_works/stand_in.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
std::string why_nothing(const replay::ReplayCell* cell, const Place& place) {
  if (cell == nullptr) return "This run has nothing for the chunk.";
  if (cell->blocks) return {};
  if (!cell->dense_reason)
    return "This run was recorded without the masks of its query heads: select its method anew.";
  switch (*cell->dense_reason) {
    case trace::DenseReason::EmptyPast:
      return "The first chunk has no past: every block is read. Step to a later chunk.";
    case trace::DenseReason::FitsBudget:
      return "All of the past fits into the budget: every block is read. Step to a later chunk, or "
             "lower the budget.";
    case trace::DenseReason::MethodRule: break;
  }
  return place.chunk_info().phase == trace::Phase::Decode
             ? "The method decodes densely: every block is read. Step to a chunk of the prompt."
             : fmt::format(
                   "Layer {} is dense by the method's rule: every block is read. Go to "
                   "another layer.",
                   place.layer);
}

// A recorded run of blocks is shown also where this version does not know its method.
constexpr MethodKind kOfBlocks{
    .id = "compact_attention",
    .others = "chooses no blocks",
    .has = [](const MethodChoice& method, const trace::TraceInfo& info) {
      if (method.known()) return method.spec->info().granularity == trace::Granularity::Block;
      const trace::RunInfo* run = method.run_info(info);
      return run != nullptr && run->granularity == trace::Granularity::Block;
    }};

// Numbers of the query heads whose masks hold one of these past blocks by their score.
struct Askers {
  std::vector<std::string> heads;
  bool by_rule = false;  // one of these blocks is there by rule
};
Askers askers_of(const Answer& answer, const std::vector<std::int64_t>& blocks) {
  const BlockReport& r = answer.report;
  const std::int64_t query_blocks = r.grid.num_query_blocks();
  Askers askers;
  for (std::size_t head = 0; head < r.q_heads.size(); ++head) {
    bool asks = false;
    for (std::int64_t i = 0; i < query_blocks; ++i)
      for (const std::int64_t block : blocks) {
        const BlockState state =
            answer.stages.front().at(r, static_cast<std::int64_t>(head) * query_blocks + i, block);
        asks |= state == BlockState::Kept || state == BlockState::Straddling;
        askers.by_rule |= state == BlockState::Forced;
      }
    if (asks) askers.heads.push_back(std::to_string(r.q_heads[head]));
  }
  return askers;
}

// ": query heads 3 and 5 ask for it".
std::string who_asks(const Answer& answer, const std::vector<std::int64_t>& blocks) {
  const BlockReport& r = answer.report;
  auto [heads, by_rule] = askers_of(answer, blocks);
  const std::string things = blocks.size() == 1 ? "it" : "them";
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

// " Of the 2 blocks of needle 1 is read: only query head 5 asks for them." Empty: nothing is watched, or no
// block before the chunk holds it.
std::string fate_of_span(const Answer& answer, const Place& place) {
  const auto span = watched_keys(place);
  if (!span || answer.stages.empty()) return "";
  const BlockReport& r = answer.report;
  const BlockStage& last = answer.stages.back();
  std::vector<std::int64_t> blocks;
  int read = 0;
  for (std::int64_t block = 0; block < r.grid.num_past_blocks(); ++block) {
    if (!span->keys.meets(r.grid.key_begin(block), r.grid.key_end(block))) continue;
    blocks.push_back(block);
    bool kept = false;
    for (std::int64_t row = 0; row < last.rows; ++row)
      kept |= last.at(r, row, block) != BlockState::Dropped;
    read += kept ? 1 : 0;
  }
  if (blocks.empty()) return "";
  const std::string name = readable_name(span->name), who = who_asks(answer, blocks);
  if (blocks.size() == 1)
    return fmt::format(" The block of {} is {}{}.", name, read == 1 ? "read" : "not read", who);
  return fmt::format(" Of the {} blocks of {} {} {} read{}.", blocks.size(), name,
                     read == 0 ? "none" : std::to_string(read), read <= 1 ? "is" : "are", who);
}

}  // namespace

std::string BlockTablesQuestion::title() const {
  return fmt::format("Selecting blocks in layer {}", place.layer);
}

BlockTablesQuestion::Answer BlockTablesQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  const replay::ReplayCell* cell = run->find(place.layer, place.chunk);
  if (cell == nullptr && !place.info().has_queries(place.chunk))
    throw trace::lacks_queries(place.info(), place.chunk);
  Answer answer;
  answer.facts = facts_of(place, method, *run);
  answer.notes = run->notes;
  answer.nothing = why_nothing(cell, place);
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

std::string block_tables_finding(const BlockTablesQuestion::Answer& answer, const Place& place) {
  const BlockReport& r = answer.report;
  const std::string mean = r.q_heads.size() == 1 ? "" : " (mean over the heads)";
  if (answer.reads_masks)
    return fmt::format("Each query block reads its own mask: {} of the past{}.{}",
                       share_text(r.native.kept.past), mean, fate_of_span(answer, place));
  const std::int64_t past = r.grid.num_past_blocks();
  return fmt::format("The masks ask for {} of the past{}; {} is read: {} of {} block{}.{}",
                     share_text(r.native.kept.past), mean, share_text(r.read.kept.past),
                     answer.past_blocks_read, past, past == 1 ? "" : "s",
                     fate_of_span(answer, place));
}

BlockTablesQuestion block_tables_question(const Workspace& workspace) {
  StandIn shown = stand_in_for(workspace, kOfBlocks);
  return {workspace.place(), std::move(shown.method), std::move(shown.why)};
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
