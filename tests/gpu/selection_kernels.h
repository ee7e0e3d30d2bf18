// The part of the kit that runs the kernels of core/selection's operators.
#pragma once

namespace kvloupe::gpu {

// Prints ', "selection": [...]', and on a GPU ', "selection_times": [...]'. True where all is right.
bool print_selection();

}  // namespace kvloupe::gpu
