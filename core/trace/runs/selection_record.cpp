#include "core/trace/runs/selection_record.h"

#include <algorithm>

namespace kvloupe::trace {

const char* name_of(DenseReason reason) {
  switch (reason) {
    case DenseReason::EmptyPast: return "empty_past";
    case DenseReason::FitsBudget: return "fits_budget";
    case DenseReason::MethodRule: return "method_rule";
  }
  return "";
}

bool CellRecord::keeps_every_key() const {
  return dense_reason || std::all_of(rows.begin(), rows.end(), [&](const SelectedRow& row) {
           return static_cast<std::int64_t>(row.positions.size()) == num_candidates;
         });
}

}  // namespace kvloupe::trace
