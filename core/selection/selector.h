// The selection contract. A Selector is one method with its state over one pass through a trace or
// a model run. For each (chunk, layer) it is asked to select() once and then, if it evicts, to
// evict() once. In each layer chunks come in ascending order; a cell comes after the cell of the
// same chunk in the layer whose set it reuses (source_layer). So a live model goes through the
// layers of a chunk, and a replay may go through the chunks of a layer.
// Methods live in methods/<id>.cpp, one file each, and enter by one line in method_list.h.
#pragma once

#include "core/attention/lane_attention.h"
#include "core/base/softmax_form.h"
#include "core/selection/blocks/blocks.h"
#include "core/selection/evidence.h"
#include "core/selection/operators/operators.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/basis_file.h"
#include "core/trace/runs/selection_record.h"
#include "core/trace/trace_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe::selection {

using BasisPtr = std::shared_ptr<const trace::Basis>;
class KeyCopies;
class ScoreMemo;

// One (chunk, layer). Tensors are contiguous per head, values exactly as stored, all on one device, in
// one type of attention/number_types.h: methods compute there, in fp32 whatever the type, so that their
// sets do not depend on it, and bring positions back, or small tables that they decide by.
struct Cell {
  int layer = 0;
  int chunk = 0;
  std::int64_t past_len = 0;   // P
  std::int64_t chunk_len = 0;  // m
  trace::Phase phase = trace::Phase::Prefill;
  bool ends_prefill = false;  // the last prefill chunk of the prompt
  SoftmaxForm softmax;
  at::Tensor q;  // [num_q_heads, m, head_dim]
  at::Tensor k;  // [num_kv_heads, T, head_dim], T = P + m
  at::Tensor v;  // [num_kv_heads, T, head_dim]
  // Only where Traits::needs_probe; what capture recorded for it (FORMAT.md, section 5).
  at::Tensor probe_q;  // [num_q_heads, n, head_dim] queries of the probe text after this chunk
  // [T] -log P of each token given those before it, on the host; position 0: infinity.
  at::Tensor novelty;
  // Of the keys of this layer, of the same KV cache (key_copies.h): shared by all methods and chunks
  // that get this pointer. Null: each selection makes its own.
  std::shared_ptr<KeyCopies> copies;
  // Likewise, where several methods are asked about the cell (score_memo.h).
  std::shared_ptr<ScoreMemo> memo;
  // Position of the first row of k and v, from which past_len counts: above 0 in visible_part() alone.
  std::int64_t first_key = 0;

  std::int64_t kv_len() const { return past_len + chunk_len; }
  std::int64_t num_q_heads() const { return q.size(0); }
  std::int64_t num_kv_heads() const { return k.size(0); }
  std::int64_t gqa_group_size() const { return num_q_heads() / num_kv_heads(); }
  // The first key that some row of the chunk sees: the first candidate.
  std::int64_t first_candidate() const { return softmax.first_visible(past_len); }
};

// The same cell without the keys that a window hides from all of its rows. Methods that choose among
// the candidates of one chunk alone see windows as texts that begin later.
Cell visible_part(const Cell& cell);

using trace::DenseReason;
using trace::SelectedRow;

// Scores from some lanes of rotated queries and keys (lanes.h): what attention computes them from.
struct LaneScores {
  attention::LaneQueries queries;
  attention::LaneKeys keys;
  // Values that are cached without some lanes of their own basis: the rest of them,
  // [num_kv_heads, kv_len, stored lanes]. Undefined: the cell's, whole.
  at::Tensor values;
  BasisPtr basis;
};

// What a selector answers: the record of the cell (lane methods that drop no key have all candidates
// in its rows), and beside it what attention and explanations need and no trace stores.
struct CellSelection : trace::CellRecord {
  // Lane methods prune channels of the dot product, not keys; none for other methods.
  std::optional<LaneScores> lanes;
  // Block methods, in cells that are not dense: what was ranked or compared, and with what, where the
  // method compares: [num_q_heads, Q_b] row-major, else empty.
  BlockTable<float> block_scores;
  std::vector<float> block_thresholds;
  // What was chosen lies on the device still, the same number of past keys for each KV head: attention takes it
  // as it is, and `rows` is empty until bring_rows().
  std::optional<KeptRows> pending;
};
// To the host, which waits for it; nothing where nothing is pending.
void bring_rows(CellSelection& selection);

// Of methods that score keys against a few rows of the chunk: int32 [num_q_heads, slots] rows of q, on its
// device, slot by slot, and what score_keys() makes of them.
struct SlotScoring {
  at::Tensor rows;
  CosineScoring form;
};

class Selector {
 public:
  virtual ~Selector() = default;
  // What the chunk's queries attend to.
  virtual CellSelection select(const Cell& cell) = 0;
  // The same for who attends before it reads the rows: they may be pending.
  virtual CellSelection select_there(const Cell& cell) { return select(cell); }
  // Eviction: what dies after the chunk, per row, ascending. `cell` is the one that was selected
  // for, with probe_q where the method needs it. Else empty.
  virtual std::vector<std::vector<std::int32_t>> evict(const Cell& cell);
  // Sets that layers reuse: of chunks before this one none is asked for any more. Else nothing.
  virtual void forget_before(int) {}
  // Eviction: the set alive after the last chunk seen of `layer`, per row. Else empty.
  virtual std::vector<std::vector<std::int32_t>> alive(int layer) const;
  // The chunk rows that stand for the chunk where the method chooses, per query head, ascending;
  // a head where all rows speak (or none does) has no list of its own. Empty: so it is in all heads.
  virtual std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell);
  // What the chunk's keys are scored against; nothing where the method has no slots (slot_selector.h).
  virtual std::optional<SlotScoring> slots(const Cell&) { return std::nullopt; }
  // What the rows were decided by: of the cell that was selected for last, computed anew; of methods
  // that evict, in the last evict() of the layer, where keep_evidence() was called before the first. Empty
  // where nothing was ranked: dense cells, threshold methods, positions or lanes alone.
  virtual std::vector<RowEvidence> evidence(const Cell& cell);
  virtual void keep_evidence();
};

// `spec` must be resolved; `basis` is needed where Traits::basis says so (basis.h finds it) and
// must hold every layer that will be selected in. Throws Error{Input} when the model cannot be
// served.
std::unique_ptr<Selector> make_selector(const MethodSpec& spec, const ModelShape& shape,
                                        BasisPtr basis = nullptr,
                                        Ablation ablation = Ablation::None);

}  // namespace kvloupe::selection
