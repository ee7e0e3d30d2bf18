// The two looks of the program.
#pragma once

namespace kvloupe::state {

enum class ThemeKind { Dark, Light };

}  // namespace kvloupe::state
