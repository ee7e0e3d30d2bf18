// Several methods on one trace, averaged alike: `kvloupe compare`.
#pragma once

#include "core/replay/averages.h"
#include "core/replay/replay.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

struct UnavailableMethod {
  std::string method;  // canonical
  Error error;
};
struct Comparison {
  std::vector<CompareRow> rows;  // of one method after the other, in the order asked for
  // Methods that are averaged over other cells than most are, `dense` apart: their rows are not
  // comparable with the others'. Canonical.
  std::vector<std::string> on_other_cells;
  // With common cells: where there is none, and who keeps everything in every cell there. Canonical.
  struct NoCell {
    std::string phase;
    std::vector<std::string> dense;
  };
  std::vector<NoCell> no_common_cell;
  std::vector<UnavailableMethod> unavailable;  // what this trace cannot serve, with the reason
};

struct CompareOptions {
  CellChoice cells = CellChoice::Own;
  Weights weights = Weights::Cells;
  std::optional<KeySpan> span = {};  // watched
  std::vector<Scope> scopes = {};    // beside all, layer, kv_head and chunk
};

// All methods in one pass over the trace; request.spec is not looked at. Throws the error of the
// first method when none can be served.
Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<selection::MethodSpec>& specs,
                           const ReplayRequest& request, const CompareOptions& options,
                           const WorkContext& context);

// What a text names.
struct MethodList {
  std::vector<selection::MethodSpec> specs;
  std::vector<UnavailableMethod> unavailable;  // of "all": a file that they need is not given
};
// `text` is a method SPEC, or "all" or "all:name=value,...": every method of the catalogue, each
// with those of the parameters that it has. Threshold methods take a budget only beside
// lowering=budget. Throws Error{Usage}.
MethodList parse_methods(const std::string& text);
// All that the texts name, in their order.
MethodList parse_methods(const std::vector<std::string>& texts);

}  // namespace kvloupe::replay
