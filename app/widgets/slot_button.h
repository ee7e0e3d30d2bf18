// The button that makes a method A or B, wherever methods are listed.
#pragma once

#include "app/widgets/palette.h"

namespace kvloupe::widgets {

// In the colour of the slot where the method stands in it (`here`). True when it was clicked.
bool slot_button_ui(const Palette& palette, state::Slot slot, bool here);

}  // namespace kvloupe::widgets
