// The part of the kit that runs the kernels of probabilities.cuh.
#pragma once

namespace kvloupe::gpu {

// Prints ', "probabilities": [...]' in the form of print_selection(). True where all is right.
bool print_probabilities();
// On a GPU ', "probability_times": [...]'.
void print_probabilities_times();

}  // namespace kvloupe::gpu
