// A method in one layer of a trace, cell by cell, beside what each of its stages would have kept had it
// been changed alone (docs/explain.md). Private to core/replay: needs Torch.
#pragma once

#include "core/replay/explain.h"
#include "core/replay/prepared_method.h"
#include "core/selection/selector.h"
#include "core/session/session_tensors.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// What a stage would have kept.
struct Alternative {
  Stage stage;
  std::optional<selection::MethodSpec> spec;
  std::string change;
  std::vector<selection::SelectedRow>
      rows;                   // of the method; head merge: of the row with the head alone
  std::optional<int> q_head;  // head merge: speaks for the row of this head only

  // Whether it says anything of the row, and keeps the key there.
  bool speaks_for(int row, int q_heads_per_row) const {
    return !q_head || *q_head / q_heads_per_row == row;
  }
  bool keeps(int row, std::int64_t key) const;
};

// The last cut that a row went through, or that of the layer whose set is reused.
struct Decision {
  int layer = 0, chunk = 0;
  selection::RowEvidence evidence;
};

struct CellRun {
  selection::Cell cell;
  selection::CellSelection selection;
  // Where they were wanted:
  std::vector<float> mass;                       // M [rows, kv_len]
  std::vector<float> lse;                        // [num_q_heads, m]
  std::vector<std::optional<Decision>> decided;  // by row
  std::vector<Alternative> alternatives;         // by stage, in order

  const float* mass_of(int row) const { return mass.data() + row * cell.kv_len(); }
  bool keeps(int row, std::int64_t key) const;
  // Of a key that the row lost.
  Stage cause(int row, std::int64_t key, const std::vector<Stage>& stages,
              int q_heads_per_row) const;
};

struct StagesWanted {
  bool alternatives = true;
  bool evidence = true;
  bool mass = true;
};

class StageRuns {
 public:
  // `session` is borrowed. Throws as replay().
  StageRuns(const session::TraceSession& session, const selection::MethodSpec& spec, int layer,
            const std::string& device, const WorkContext& context);
  ~StageRuns();

  // Chunks in ascending order, those of methods that evict from 0 on. Throws Error{Input} for a cell
  // whose attention is beyond fp32.
  CellRun step(int chunk, const StagesWanted& wanted);
  const std::vector<Stage>& stages() const { return stages_; }
  const selection::RowLayout& layout() const { return method_.layout; }
  // Eviction: after step(), what died after the chunk, per row.
  const std::vector<std::vector<std::int32_t>>& evicted() const { return evicted_; }
  // The chunk rows that stand for the chunk, per query head; see Selector::sampled_rows().
  std::vector<std::vector<std::int32_t>> sampled_rows(const selection::Cell& cell);

 private:
  struct Changed;  // a selector with one thing changed
  void prepare_changes();
  void add_head_changes();
  selection::Cell load(session::CellLoader& loader, int layer, int chunk) const;
  void decide(CellRun& run, const std::optional<selection::Cell>& source);
  void add_alternatives(CellRun& run, const std::optional<selection::Cell>& source);
  Alternative best_by_mass(const CellRun& run, const std::vector<float>& mass, Stage stage) const;
  std::vector<selection::SelectedRow> rows_of(Changed& changed, const selection::Cell& cell,
                                              const std::optional<selection::Cell>& source) const;

  const session::TraceSession& session_;
  PreparedMethod method_;
  int layer_;
  std::vector<Stage> stages_;
  std::optional<int> source_layer_;
  std::unique_ptr<selection::Selector> selector_;
  std::vector<Changed> changes_;
  session::CellLoader cells_, source_cells_;
  std::shared_ptr<selection::KeyCopies> copies_, source_copies_;
  std::vector<std::optional<Decision>> last_cut_;  // eviction, by row
  std::vector<std::vector<std::int32_t>> evicted_;
};

// M [rows, kv_len] and lse [num_q_heads, m] of a cell on the host. Throws as StageRuns::step().
struct CellMass {
  std::vector<float> mass, lse;
};
CellMass cell_mass_and_lse(const selection::Cell& cell, const selection::RowLayout& layout);

}  // namespace kvloupe::replay
