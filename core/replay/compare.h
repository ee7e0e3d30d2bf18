// Averages of several methods over the cells of a trace: the rows of `kvloupe compare`.
#pragma once

#include "core/replay/kv_bytes.h"
#include "core/replay/replay.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

struct CompareRow {
  std::string method;
  std::string phase;       // "prefill" or "decode"
  std::string scope;       // all | layer | kv_head | chunk
  int index = 0;           // of the layer, KV head or chunk; 0 for all
  std::int64_t cells = 0;  // cells averaged: dense_reason null
  // dense_fallback: dense for want of keys, not by the method's rule
  std::int64_t fallback_cells = 0;
  std::optional<double> requested_budget, effective_budget;
  // Recall and overlap are empty for lane methods, which rank no keys.
  std::optional<double> mass_recall, topk_overlap, output_error, density;
  std::optional<double> forced;  // keys kept by rule
  // Past K and V that the row's attention reads, in the trace's dtype; lanes sliced off the cached
  // keys for good are not counted.
  std::optional<double> kv_bytes;
  // Block methods, see block_report.h: the native masks, mean over the row's query heads, and what
  // the chunk attends to after the unions (`density` is its share of the past).
  std::optional<double> native_density, native_density_causal, native_density_rectangle;
  std::optional<double> density_causal, density_rectangle;
  std::optional<BasisNote> basis;
};

// Unweighted means over (layer, row, chunk) cells whose dense_reason is null, decode apart, taken as
// the cells of one method come in: none of them needs to be kept.
class Averager {
 public:
  // `spec` is empty for a recorded run of an unknown method.
  Averager(const std::optional<selection::MethodSpec>& spec, int q_heads_per_row,
           const session::TraceSession& session);
  ~Averager();
  Averager(Averager&&) noexcept;
  Averager& operator=(Averager&&) noexcept;

  void add(const ReplayCell& cell);
  // `result` names the method and its basis; its cells are not looked at.
  std::vector<CompareRow> rows(const ReplayResult& result) const;

 private:
  class Tables;
  std::unique_ptr<Tables> tables_;
};

// The same of a result that holds its cells.
std::vector<CompareRow> summarise(const ReplayResult& result, const session::TraceSession& session);

struct UnavailableMethod {
  std::string method;  // canonical
  Error error;
};
struct Comparison {
  std::vector<CompareRow> rows;  // of one method after the other, in the order asked for
  std::vector<UnavailableMethod> unavailable;  // what this trace cannot serve, with the reason
};

// All methods in one pass over the trace; request.spec is not looked at. Throws the error of the
// first method when none can be served.
Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<selection::MethodSpec>& specs,
                           const ReplayRequest& request, const WorkContext& context);

// What a text names.
struct MethodList {
  std::vector<selection::MethodSpec> specs;
  std::vector<UnavailableMethod> unavailable;  // of "all": a file that they need is not given
};
// `text` is a method SPEC, or "all" or "all:name=value,...": every method of the catalogue, each
// with those of the parameters that it has. Threshold methods take a budget only beside
// lowering=budget. Throws Error{Usage}.
MethodList parse_methods(const std::string& text);

}  // namespace kvloupe::replay
