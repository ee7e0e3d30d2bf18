// The budget with which a method keeps a key in a cell, or a span of keys in all rows of a layer.
// Private to core/replay; free of Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/replay/explain.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// The request's key. Where a larger budget keeps all that a smaller one does, `guess` (what its rank says)
// is checked by two runs, and searched for where it does not hold; elsewhere all budgets are tried from 1
// on. Empty where no budget up to `candidates` does.
std::optional<std::int64_t> needed_budget(const session::TraceSession& session,
                                          const ExplainRequest& request, std::int64_t candidates,
                                          std::optional<std::int64_t> guess,
                                          const WorkContext& context);

// For each row of a layer a budget with which it keeps all candidates among the keys in all of the chunks
// (ascending), and does not with one less; empty where none does. Where a larger budget need not keep what
// a smaller one does (`exact` is false), two an octave are tried from the largest down, and all of these
// keep it: budget_of_span() finds the same.
struct RowBudgets {
  std::vector<std::optional<std::int64_t>> rows;
  bool exact = true;
};
RowBudgets span_budgets(const session::TraceSession& session, const selection::MethodSpec& spec,
                        int layer, const std::vector<int>& chunks, const trace::KeySet& keys,
                        const std::string& device, const WorkContext& context);

}  // namespace kvloupe::replay
