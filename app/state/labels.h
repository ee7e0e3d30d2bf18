// The words for what happened to keys and blocks, the same in legends, tables and tooltips.
#pragma once

#include "core/analysis/kv_map.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/replay/block_report.h"

namespace kvloupe::state {

const char* label_of(analysis::KeyState state);
const char* label_of(analysis::KeyVerdict verdict);
const char* label_of(replay::BlockState state);
const char* label_of(analysis::KeyKind kind);

}  // namespace kvloupe::state
