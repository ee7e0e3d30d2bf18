// The part of the kit that runs the kernels of core/selection's operators.
#pragma once

namespace kvloupe::gpu {

// Prints ', "selection": [...]'. True where all is right.
bool print_selection();
// On a GPU ', "selection_times": [...]'.
void print_selection_times();

}  // namespace kvloupe::gpu
