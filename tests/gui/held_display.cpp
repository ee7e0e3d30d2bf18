#include "tests/gui/held_display.h"

#include <X11/Xlib.h>

namespace kvloupe::test {

HeldDisplay::HeldDisplay() : display_(XOpenDisplay(nullptr)) {}

HeldDisplay::~HeldDisplay() {
  if (display_ != nullptr) XCloseDisplay(static_cast<Display*>(display_));
}

}  // namespace kvloupe::test
