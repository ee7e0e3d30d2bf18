// Cells with some of their heads alone, for methods that choose for each head by itself. Private to
// core/replay: needs Torch.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>

namespace kvloupe::replay {

// One query head of every group, its `of_group`-th, and all KV heads.
selection::Cell one_of_each_group(const selection::Cell& cell, std::int64_t of_group);
// One query head and its KV head.
selection::Cell single_head(const selection::Cell& cell, std::int64_t q_head);
// One KV head and its group.
selection::Cell single_group(const selection::Cell& cell, std::int64_t kv_head);

}  // namespace kvloupe::replay
