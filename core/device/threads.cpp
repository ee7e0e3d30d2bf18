#include "core/device/threads.h"

#include <ATen/Parallel.h>

namespace kvloupe::device {

void set_num_threads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
}

int num_threads() { return at::get_num_threads(); }

}  // namespace kvloupe::device
