// The part of the kit that runs the kernels of core/attention's operators.
#pragma once

namespace kvloupe::gpu {

// Prints ', "attention": [...]', and on a GPU ', "attention_times": [...]'. True where all is right.
bool print_attention();

}  // namespace kvloupe::gpu
