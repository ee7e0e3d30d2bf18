// The smallest budget with which a method keeps keys in a cell. Private to core/replay; free of Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/replay/explain.h"

#include <cstdint>
#include <optional>
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

}  // namespace kvloupe::replay
