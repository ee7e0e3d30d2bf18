// One method on one cell, in the three steps that are timed apart. Private to core/measure: needs
// Torch.
#pragma once

#include "core/attention/attention.h"
#include "core/attention/block_tables.h"
#include "core/base/cancel.h"
#include "core/measure/cell_source.h"
#include "core/measure/latency_report.h"
#include "core/measure/timing.h"
#include "core/replay/prepared_method.h"
#include "core/selection/selector.h"
#include "core/session/session.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe::measure {

// What a step cannot do without: keys and values read once, products over those alone.
struct Work {
  double bytes = 0;
  double flops = 0;
};

// What is timed: MethodRun::parts(), then the forms of dense attention.
enum Part : std::size_t { kChain, kSelect, kGather, kAttend, kFirstDense };

// Selection is all that the method does for a chunk: what it selects, prunes and evicts, and copies of
// the chunk's own keys where it scores by copies; those of the past are at hand. Attention
// is that of selection::attend_selected().
class MethodRun {
 public:
  // `cells` is borrowed. Throws Error{Input} where the trace cannot serve the method.
  MethodRun(const session::TraceSession& session, const selection::MethodSpec& spec,
            CellSource& cells, int layer, const WorkContext& context);
  // The same with a method that is ready, on cells of no trace. `model` may be empty: only methods that move keys ask
  // it, for its rotary embedding.
  MethodRun(replay::PreparedMethod method, trace::ModelInfo model, CellSource& cells, int layer);

  const selection::Cell& cell() const { return cell_; }
  const selection::MethodSpec& spec() const { return method_.spec; }

  // Replays what the cell's choice rests on; before each select().
  void prepare(const WorkContext& context);
  // What a user of the method pays: select(), then selection::attend_selected(), which reads keys where they lie if the
  // device can.
  void chain();
  // The chain, then its steps apart: select, gather, attend. They borrow this object and `context`.
  std::vector<TimedPart> parts(const WorkContext& context);
  // What these ask of a device in a cell after the first; none for the CPU, and where it cannot be counted.
  std::optional<LatencyReport::Counts> counts(const device::DeviceInfo& device,
                                              const WorkContext& context);
  // Its rows may be pending, for who attends does not read them.
  void select();
  void gather();        // by tables of the host
  at::Tensor attend();  // [num_q_heads, m, head_dim]

  // How the selected KVs are read; after gather().
  KvReads reads() const;
  // After select(), with its rows.
  const selection::CellSelection& selected();
  // Of attention over what was selected, lanes left out counted as left out.
  Work attention_work();

 private:
  // A piece of the cell that attends to one gathering: all KV heads at once, or, for methods whose
  // rows are query heads or sub-groups, one row.
  struct Piece {
    std::int64_t first_q_head = 0, q_heads = 0;
    at::Tensor k, v;
    std::size_t first_row = 0, num_rows = 0;
  };
  at::Tensor attend_lanes() const;
  // (query, key) pairs that the masks of a row's query head let through.
  double pairs_of_masks(std::int64_t row) const;
  static std::vector<Piece> pieces_of(const selection::Cell& cell,
                                      const selection::RowLayout& layout);

  replay::PreparedMethod method_;
  trace::ModelInfo model_;
  int layer_;
  selection::Cell cell_;
  std::vector<Piece> pieces_;
  std::vector<selection::Cell> earlier_;
  std::unique_ptr<selection::Selector> selector_;
  selection::CellSelection selected_;
  std::vector<attention::GatheredKeys> gathered_;
  std::optional<attention::BlockTables> tables_;
  at::Tensor mask_;  // of a cell that reads its masks, in the memory of `selected_`
};

}  // namespace kvloupe::measure
