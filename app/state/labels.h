// The words for what happened to keys and blocks, the same in legends, tables and tooltips.
#pragma once

#include "core/analysis/kv_difference.h"
#include "core/analysis/kv_map.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/replay/block_report.h"
#include "core/trace/trace_types.h"

#include <string>

namespace kvloupe::state {

const char* label_of(analysis::KeyState state);
const char* label_of(analysis::KeyVerdict verdict);
const char* label_of(analysis::KeptBy kept_by);
const char* label_of(replay::BlockState state);
const char* label_of(analysis::KeyKind kind);

// A share of attention, of keys, of a norm: "45.3 %", below a percent with two digits "0.43 %", "–" where
// there is none. The numbers of compare (core/replay/numbers.h) have their own unit and digits.
std::string share_text(double share);
// With two digits, where there is little room: "45 %", "4.3 %", "0.43 %".
std::string brief_share_text(double share);
// A share beside a tick of an axis, with all its digits: "25 %", "12.5 %", "0.001 %".
std::string share_tick_text(double share);

// What makes the attention of a layer other than plain and full: "window 512", "sinks"; none: empty.
std::string label_of_layer(const trace::ModelInfo& model, int layer);
// "12", "13 (window 512)".
std::string layer_name(const trace::ModelInfo& model, int layer);

}  // namespace kvloupe::state
