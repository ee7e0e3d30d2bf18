// The text around what is watched: a click on a token asks about its key.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/why_lost/explain.h"

namespace kvloupe::panels {

void watched_text_ui(DrawContext& context, const state::Place& place,
                     const state::WatchedKey& watched);

}  // namespace kvloupe::panels
