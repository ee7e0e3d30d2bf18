// The two looks of the program, and the colours of a figure.
#pragma once

namespace kvloupe::state {

enum class ThemeKind { Dark, Light };
// Of what is drawn: Gray is for a print without colour.
enum class Colors { Usual, Gray };

}  // namespace kvloupe::state
