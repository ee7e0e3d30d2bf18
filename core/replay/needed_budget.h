// The smallest budget with which a method keeps a key in a cell, or a span of keys in all rows of a layer.
// Private to core/replay; free of Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/replay/explain.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// All of the keys. Where a larger budget keeps all that a smaller one does, `guess` (what their ranks say) is
// checked by two runs, and searched for where it does not hold; elsewhere all budgets are tried from 1 on. `unit`: keys
// of a page or block, of which a method takes whole ones. Empty where no budget up to `candidates` does.
std::optional<std::int64_t> needed_budget(const session::TraceSession& session,
                                          const ExplainRequest& request,
                                          const std::vector<std::int64_t>& keys,
                                          std::int64_t candidates,
                                          std::optional<std::int64_t> guess, std::int64_t unit,
                                          const WorkContext& context);

// For each row of a layer the smallest budget with which it keeps all candidates of the span in all of the
// chunks (ascending). Where a larger budget need not keep what a smaller one does, a few budgets are tried:
// the one from which on all of them do. Empty where none does.
struct RowBudgets {
  std::vector<std::optional<std::int64_t>> rows;
  bool exact = true;
};
RowBudgets span_budgets(const session::TraceSession& session, const selection::MethodSpec& spec,
                        int layer, const std::vector<int>& chunks, const trace::TokenSpan& span,
                        const std::string& device, const WorkContext& context);

}  // namespace kvloupe::replay
