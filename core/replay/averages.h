// Averages of a method over the cells of a trace: the rows of `kvloupe compare`.
#pragma once

#include "core/replay/common_cells.h"
#include "core/replay/kv_bytes.h"
#include "core/replay/numbers.h"
#include "core/replay/replay.h"
#include "core/replay/span_kept.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::replay {

// A parameter by name.
struct SweptValue {
  std::string name;
  std::optional<double> value;
};

struct CompareRow {
  std::string method;
  std::optional<int> run;  // of the trace, where it was recorded and not selected anew
  std::string phase;       // "prefill" or "decode"
  std::string scope;       // all | layer | kv_head | chunk, or several such as layer,kv_head
  int index = 0;           // of the layer, KV head or chunk; 0 for all and for several
  std::vector<int> grid;   // of several: an index each, in the order of their names; else empty
  std::int64_t cells = 0;  // cells averaged
  // dense_fallback: dense because all keys fit, not by the method's rule
  std::int64_t fallback_cells = 0;
  // Recall and overlap are unknown for lane methods, which rank no keys; what counts blocks
  // (block_report.h) for methods that choose none.
  Numbers numbers;
  std::optional<BasisNote> basis;
  // Which of the methods compared; and where parameters are swept (sweep.h) their values, and for
  // each the smallest that reaches the target, if any does.
  std::size_t method_idx = 0;
  std::vector<SweptValue> sweep, solved;
};

// What a row is of: the mean over all cells of one layer, one KV head, one chunk, or of one of each
// that is named here.
struct Scope {
  bool layer = false, kv_head = false, chunk = false;
  bool operator==(const Scope&) const = default;
};
std::string name_of(const Scope& scope);  // "all", "layer", ..., "layer,kv_head"
// "layer,kv_head", in any order. Throws Error{Usage}.
Scope parse_scope(const std::string& text);

// What a cell counts for.
enum class Weights {
  Cells,    // one
  Queries,  // as many as its chunk has queries
};

// Which cells enter, and which keys are watched there.
struct Counted {
  std::vector<int> chunks = {};  // ascending; empty: all
  std::int32_t from = 0;         // chunks that hold this token or come later
  std::optional<WatchedKeys> watched = {};

  bool has(const ReplayCell& cell) const {
    const bool asked =
        chunks.empty() || std::binary_search(chunks.begin(), chunks.end(), cell.chunk);
    return asked && cell.span.end() > from;
  }
};

struct RowOptions {
  Weights weights = Weights::Cells;
  const CellSet* among = nullptr;  // cells outside are left out; null: none is
  std::vector<Scope> scopes = {};  // beside all, layer, kv_head and chunk
};

// Means over (layer, row, chunk) cells whose dense_reason is null, decode apart. Of each cell that
// comes in its numbers are kept, not its positions.
class Averager {
 public:
  // `spec` is empty for a recorded run of an unknown method.
  Averager(const std::optional<selection::MethodSpec>& spec, int q_heads_per_row,
           const session::TraceSession& session, const Counted& counted = {});
  ~Averager();
  Averager(Averager&&) noexcept;
  Averager& operator=(Averager&&) noexcept;

  // Passed over where it does not count.
  void add(const ReplayCell& cell);
  // Where the method is not dense; empty: it chooses nowhere, and is not asked for common cells.
  std::optional<CellSet> cells() const;
  std::optional<CellSet> cells(trace::Phase phase) const;
  std::int64_t all_cells(trace::Phase phase) const;  // rows of layers and chunks, dense ones too
  // `result` names the method and its basis; its cells are not looked at.
  std::vector<CompareRow> rows(const ReplayResult& result, const RowOptions& options = {}) const;
  // The one of scope "all".
  CompareRow overall(const ReplayResult& result, trace::Phase phase,
                     const RowOptions& options = {}) const;
  std::uint64_t bytes() const;

 private:
  class Cells;
  std::unique_ptr<Cells> cells_;
};

// The same of a result that holds its cells.
std::vector<CompareRow> summarise(const ReplayResult& result, const session::TraceSession& session,
                                  const Counted& counted = {});

}  // namespace kvloupe::replay
