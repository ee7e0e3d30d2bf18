// What tokens are drawn in where the text itself is shown.
#pragma once

#include "app/state/questions/kept/token_strip.h"
#include "app/widgets/palette.h"

namespace kvloupe::panels {

struct TokenColors {
  ImU32 back = 0, ink = 0;  // 0: no background
  ImU32 edge = 0;           // where the fate has no more room than a bar; 0: none
  bool evicted = false;     // which is marked beside the colours
};
TokenColors colors_of(const widgets::Palette& palette, state::TokenLook look);

}  // namespace kvloupe::panels
