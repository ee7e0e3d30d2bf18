// What a method lost of the watched span, and why: in a sentence, by head, and by what would keep it.
#pragma once

#include "app/panels/panel.h"
#include "app/state/questions/why_lost/span_loss.h"

namespace kvloupe::panels {

// What is kept, by which causes the rest is lost, and what would keep it. `search`: the budget is looked
// for where that takes long.
void span_verdict_ui(DrawContext& context, const state::SpanLossNow& now, state::Slot slot,
                     bool& search);
// How much of it each head keeps; a click goes there.
void span_map_ui(DrawContext& context, const state::SpanLossNow& now, state::Slot slot);
// The heads that matter: a few, or with `all` each.
void span_heads_ui(DrawContext& context, const state::SpanLossNow& now, state::Slot slot,
                   bool& all);

}  // namespace kvloupe::panels
