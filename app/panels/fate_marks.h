// How the fate of a key is drawn wherever keys are dots: its colour, its name in legends, and which of
// several lies on top.
#pragma once

#include "app/state/key_fate.h"
#include "app/widgets/meanings.h"

namespace kvloupe::panels {

ImU32 color_of(const widgets::Palette& palette, state::KeyFate fate);
// The meaning that Help > Colours explains.
widgets::Meaning meaning_of(state::KeyFate fate);
// The rarer and more telling one lies on top.
int prominence_of(state::KeyFate fate);

}  // namespace kvloupe::panels
