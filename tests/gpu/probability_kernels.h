// The part of the kit that runs the kernels of probabilities.cuh.
#pragma once

namespace kvloupe::gpu {

// Prints ', "probabilities": [...]', and on a GPU ', "probability_times": [...]', in the form of
// print_selection(). True where all is right.
bool print_probabilities();

}  // namespace kvloupe::gpu
