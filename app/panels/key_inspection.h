// The parts of the miss inspector that speak of one key under one method.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/questions/why_lost/miss_inspector.h"

namespace kvloupe::panels {

// All that is known of the key under the method of a slot.
struct KeyUnderMethod {
  state::Slot slot = state::Slot::A;
  state::Result<state::MissQuestion> span;  // the watched keys, the key among them
  state::ExplainNow why;
  state::Result<state::SpanBudgetQuestion> span_budget;  // of several keys
  state::Result<state::KeyLifeQuestion> life;
  state::Result<state::KeyFatesQuestion> fates;
};

// Whether several keys are watched, and this is one of them.
bool is_of_several(const KeyUnderMethod& key);
// The cause and its numbers, the stages, and what would have kept the key (key_inspection_verdict.cpp). `search`
// is set while the user wants all budgets tried: for all keys of a span, else for the key.
void key_verdict_ui(DrawContext& context, const KeyUnderMethod& key, bool& search);
// The key through the chunks; a click goes to one (key_inspection_life.cpp).
void key_life_ui(DrawContext& context, const KeyUnderMethod& key, float height);
// The key in all layers and rows; a click goes there (key_inspection_fates.cpp).
void key_fates_ui(DrawContext& context, const KeyUnderMethod& key);
// The keys kept in its place, and the queries that attend to it (key_inspection_lists.cpp). The heights are those
// of what would be drawn now.
void key_lists_ui(DrawContext& context, const KeyUnderMethod& key);
float key_lists_height(const KeyUnderMethod& key, float width);
float key_fates_height(const KeyUnderMethod& key);

ImU32 color_of_life(const widgets::Palette& palette, replay::KeyLife::State state, bool dense);

}  // namespace kvloupe::panels
