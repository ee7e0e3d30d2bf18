// Several methods on one trace, averaged alike: `kvloupe compare`.
#pragma once

#include "core/replay/averages.h"
#include "core/replay/method_choice.h"
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
  // With common cells: a phase in which no cell is common.
  struct NoCell {
    std::string phase;
    bool asked = false;              // some method chooses among keys
    std::vector<std::string> dense;  // those that keep everything in every cell; canonical
  };
  std::vector<NoCell> no_common_cell;
  std::vector<UnavailableMethod> unavailable;  // what this trace cannot serve, with the reason
  std::vector<std::string> notes;              // runs that lack layers, one sentence each
};

struct CompareOptions {
  CellChoice cells = CellChoice::Own;
  Weights weights = Weights::Cells;
  Counted counted = {};
  std::vector<Scope> scopes = {};  // beside all, layer, kv_head and chunk
};

// The cells of one method, and what the result says of all of them.
struct MethodCells {
  Averager averager;
  ReplayResult result;  // without cells
};
// What is selected anew takes one pass over the trace, a recorded run a pass of its own, layer by layer.
// request.spec is not looked at. Throws what replay() throws.
std::vector<MethodCells> measure_methods(const session::TraceSession& session,
                                         const std::vector<MethodChoice>& choices,
                                         const ReplayRequest& request, const Counted& counted,
                                         const WorkContext& context);

// Why the trace cannot serve what is asked of the method, as an Error{Input}; nothing if it can. A run
// cannot be cut into other chunks, and has the layers that were recorded. Errors of the arguments are
// thrown.
std::optional<Error> why_choice_unavailable(const session::TraceSession& session,
                                            const MethodChoice& choice,
                                            const ReplayRequest& request,
                                            const WorkContext& context);

// request.spec is not looked at. Throws the error of the first method when none can be served.
Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<MethodName>& methods, const ReplayRequest& request,
                           const CompareOptions& options, const WorkContext& context);

// What texts name.
struct MethodList {
  std::vector<MethodName> methods;
  std::vector<UnavailableMethod> unavailable;  // of "all": a file that they need is not given

  // For what computes and cannot use a record. Throws Error{Usage}.
  std::vector<selection::MethodSpec> required_specs() const;
};
// `text` is a method SPEC, what a run is called, "run:3", or "all" or "all:name=value,...": every method
// of the catalogue, each with those of the parameters that it has. Threshold methods take a budget only
// beside lowering=budget. Throws Error{Usage}.
MethodList parse_methods(const std::string& text);
// All that the texts name, in their order.
MethodList parse_methods(const std::vector<std::string>& texts);
// What "all:name=value,..." stands for.
MethodList all_methods(const selection::ParamValues& values);

}  // namespace kvloupe::replay
