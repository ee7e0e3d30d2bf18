// `kvloupe compare --sweep`: methods with each of several values of their parameters, and the smallest
// value that is enough.
#pragma once

#include "core/replay/compare.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// One parameter, or `chunk_size`, by which the prompt is cut anew, and the values it takes.
struct SweepAxis {
  std::string name;
  std::vector<std::string> values;  // in the order given

  bool cuts_anew() const;  // it is chunk_size
};
// "budget_tokens=32,64,128" or "budget_tokens=32..128": from the first on in steps of a factor of 2,
// as long as they are at most the last. Throws Error{Usage}.
SweepAxis parse_sweep(const std::string& text);

// A number of the rows and what it must come to.
struct SweepTarget {
  Number number = Number::MassRecall;
  double value = 0;  // at least; at most of what is better when lower

  bool is_reached(const CompareRow& row) const;
};
// "mass_recall=0.95". Throws Error{Usage}.
SweepTarget parse_target(const std::string& text);

// A method with one value of each of the axes that it has.
struct SweepVariant {
  MethodName name;
  std::optional<int> chunk_size;
  std::size_t method = 0;          // in the list given
  std::vector<SweptValue> values;  // in the order of the axes
};
struct SweepPlan {
  std::vector<SweepVariant> variants;  // of one method after the other, the last axis fastest
  // Which methods do not have a parameter in use, or are recorded runs, and stay as they are along that
  // axis, one sentence each.
  std::vector<std::string> notes;
};
// Every method at every point of the product of its axes. Throws Error{Usage}: an axis that no method
// has, a value that one of them does not take, an axis given twice.
SweepPlan plan_sweep(const std::vector<MethodName>& methods, const std::vector<SweepAxis>& axes);

// All variants, one pass over the trace for each chunk size. Rows in the order of the plan, with
// CompareRow::sweep; method_idx is the variant. Cells are common (CellChoice) to those of one chunk size.
// Throws the first error where a chunk size can serve no method.
Comparison compare_sweep(const session::TraceSession& session, const SweepPlan& plan,
                         const ReplayRequest& request, const CompareOptions& options,
                         const WorkContext& context);

// Fills CompareRow::solved: for each axis of a row the smallest of its values with which the method
// reaches the target where the other axes are as in the row, in the same phase, scope and place. Only
// values of the sweep, nothing is interpolated; none where no value reaches it.
void solve(const SweepPlan& plan, const SweepTarget& target, std::vector<CompareRow>& rows);

}  // namespace kvloupe::replay
