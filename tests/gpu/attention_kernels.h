// The part of the kit that runs the kernels of core/attention's operators.
#pragma once

namespace kvloupe::gpu {

// Prints ', "attention": [...]'. True where all is right.
bool print_attention();
// On a GPU ', "attention_times": [...]'.
void print_attention_times();

}  // namespace kvloupe::gpu
