// The two looks of the program, and what a user may choose.
#pragma once

#include "app/state/theme.h"

namespace kvloupe::widgets {

using state::Colors;
using state::ThemeKind;

enum class ThemeChoice { System, Dark, Light };  // System: as the desktop is

}  // namespace kvloupe::widgets
