// The two looks of the program.
#pragma once

namespace kvloupe::widgets {

enum class ThemeKind { Dark, Light };

}  // namespace kvloupe::widgets
