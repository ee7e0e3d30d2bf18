// The view block_tables: what becomes of a block method's masks in one chunk and row, from the mask
// of each query head over two unions to the table that attention reads.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "app/state/questions/how_it_works/block_metrics.h"
#include "core/replay/block_report.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

// A stage as a table [rows, N_b] of a report.
struct BlockStage {
  const char* id = "";
  std::string title;
  std::int64_t rows = 1;
  replay::StageDensity replay::BlockReport::*density = nullptr;
  std::vector<replay::BlockState> replay::BlockReport::*states = nullptr;
  std::optional<replay::BlockExecution> way = {};  // that attends to just this
  bool changes = true;                             // its blocks are not those of the stage above

  bool of_masks() const { return states == &replay::BlockReport::mask; }
  replay::BlockState at(const replay::BlockReport& report, std::int64_t row,
                        std::int64_t block) const {
    return (report.*states)[static_cast<std::size_t>(row * report.grid.num_key_blocks() + block)];
  }
};

struct BlockTablesQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "block tables";
  std::string stand_in;  // why this is not the method chosen; empty: it is

  struct Answer {
    std::string nothing;  // why there are no tables here; empty: there are
    replay::BlockReport report;
    std::vector<BlockStage> stages;  // from top to bottom; empty where there is nothing
    bool reads_masks = false;        // each query block reads its own mask: no union is read
    int kv_head = 0;
    std::int64_t past_blocks_read = 0;
    std::array<bool, replay::kNumBlockStates> present{};
    std::vector<std::string> notes;  // of the run, one sentence each
    MethodFacts facts;
  };

  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    const replay::BlockReport& r = answer.report;
    return sizeof(answer) + bytes_in(r.mask, r.query_union, r.group_union, r.table, r.pages);
  }
};

// "The masks ask for 21 % of the past; 38 % is read: 6 of 16 blocks. Of the 2 blocks of needle 1 is read:
// only query head 5 asks for them." Densities are means over the query heads of the row.
std::string block_tables_finding(const BlockTablesQuestion::Answer& answer, const Place& place);

// For the current selection: the method shown, or one that chooses blocks in its place.
BlockTablesQuestion block_tables_question(const Workspace& workspace);

}  // namespace kvloupe::state
