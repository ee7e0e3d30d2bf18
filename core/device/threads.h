// How many CPU threads tensor work uses, process-wide.
#pragma once

namespace kvloupe::device {

// 0 keeps the default: all cores.
void set_num_threads(int threads);
int num_threads();

}  // namespace kvloupe::device
