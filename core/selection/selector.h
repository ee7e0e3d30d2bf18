// The selection contract. A Selector is one method with its state over one pass through a trace or
// a model run; it is asked once per (chunk, layer): chunks ascending, layers ascending inside one.
// Methods live in methods/<id>.cpp, one file each, and enter by one line in registry.cpp.
#pragma once

#include "core/selection/method_spec.h"
#include "core/trace/trace_types.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe::selection {

// One (chunk, layer). Tensors are fp32 and contiguous per head, values exactly as stored.
struct Cell {
  int layer = 0;
  int chunk = 0;
  std::int64_t past_len = 0;   // P
  std::int64_t chunk_len = 0;  // m
  trace::Phase phase = trace::Phase::Prefill;
  double softmax_scale = 0;
  at::Tensor q;  // [num_q_heads, m, head_dim]
  at::Tensor k;  // [num_kv_heads, T, head_dim], T = P + m
  at::Tensor v;  // [num_kv_heads, T, head_dim]

  std::int64_t kv_len() const { return past_len + chunk_len; }
  std::int64_t num_q_heads() const { return q.size(0); }
  std::int64_t num_kv_heads() const { return k.size(0); }
  std::int64_t gqa_group_size() const { return num_q_heads() / num_kv_heads(); }
};

// Which query heads a row of a selection speaks for.
struct RowLayout {
  trace::RowAxis axis = trace::RowAxis::KvHead;
  int q_heads_per_row = 1;
};

enum class DenseReason { EmptyPast, FitsBudget, MethodRule };

struct RowSelection {
  std::vector<std::int32_t> positions;  // ascending; all candidates where the cell is dense
  std::int64_t forced = 0;              // kept by rule: sinks, window, recent
  std::int64_t ties_at_cut = 0;
};

struct CellSelection {
  std::vector<RowSelection> rows;  // per KV head (or q head, or sub-group)
  std::optional<DenseReason> dense_reason;
  bool dense_fallback = false;                // no past, or the candidates fit the budget
  std::optional<std::int64_t> budget_tokens;  // B of this cell; nullopt without a budget
  // Eviction: per row, the positions that die after this chunk, ascending.
  std::vector<std::vector<std::int32_t>> evicted;
};

class Selector {
 public:
  virtual ~Selector() = default;
  virtual CellSelection select(const Cell& cell) = 0;
  // Eviction: the set alive after the last chunk seen of `layer`, per row. Else empty.
  virtual std::vector<std::vector<std::int32_t>> alive(int layer) const;
};

// The rows that a method's selections have on a model of this shape.
RowLayout row_layout(const MethodSpec& spec, const ModelShape& shape);
// A run of `spec` (resolved) as a trace describes it; open loop.
trace::RunInfo describe_run(const MethodSpec& spec, const ModelShape& shape);

// `spec` must be resolved. Throws Error{Input} when the model cannot be served.
std::unique_ptr<Selector> make_selector(const MethodSpec& spec, const ModelShape& shape);

}  // namespace kvloupe::selection
