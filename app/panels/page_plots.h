// The parts of quest_pages: bounds against best keys, along the text, pages step by step and their
// churn. For results that have pages; the last two for those that have steps.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/questions/how_it_works/quest_pages.h"

namespace kvloupe::panels {

using Pages = state::Result<state::QuestPagesQuestion>;

ImU32 color_of(const widgets::Palette& palette, analysis::PageVerdict verdict);
ImU32 color_of(const widgets::Palette& palette, analysis::PageMove move);

// A page a dot: its best logit across, its bound upwards. What the method takes lies above the
// horizontal line, what a perfect bound would take right of the vertical one.
void bound_scatter_ui(DrawContext& context, const Pages& result, ImVec2 size);
// Whether its plot reaches down to where a bound equals its page's best logit, which is a line there.
bool shows_equal_bounds(const Pages& result);
// A page a stroke from its best logit to its bound, where it stands in the text.
void bound_strip_ui(DrawContext& context, const Pages& result, ImVec2 size);
// Steps down, pages across.
void page_steps_ui(DrawContext& context, const Pages& result, widgets::MapTexture& texture,
                   ImVec2 size);
// Jaccard of the pages of a step and of the one before, and how many come back.
void page_churn_ui(DrawContext& context, const Pages& result, ImVec2 size);

}  // namespace kvloupe::panels
