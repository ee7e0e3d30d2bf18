// The colours of words. A mark may be pale, since its area carries it; words in the same colour must be
// read.
#pragma once

#include "app/widgets/palette.h"

namespace kvloupe::widgets {

// Of WCAG 2: what small words need on the ground behind them.
inline constexpr double kLegible = 4.5;
double contrast(ImU32 a, ImU32 b);

// The colour of a mark, for words on a panel: as it is where it is legible, else nearer to the colour of
// text by as little as is needed.
ImU32 ink_of(const Palette& palette, ImU32 color);

}  // namespace kvloupe::widgets
