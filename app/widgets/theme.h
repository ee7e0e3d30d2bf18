// The two looks of the program.
#pragma once

#include "app/state/theme.h"

namespace kvloupe::widgets {

using state::ThemeKind;

}  // namespace kvloupe::widgets
