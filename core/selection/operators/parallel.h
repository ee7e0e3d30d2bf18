// Work on the items of a cell on several threads.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace kvloupe::selection {

// Runs work(item) for every item of [0, count), on several threads where it pays:
// operations_per_item is a rough count of multiplications.
template <typename Work>
void for_each_item(std::int64_t count, std::int64_t operations_per_item, const Work& work) {
  // Some 50 us of work for a thread: waking one for less costs more, above all on a busy machine.
  constexpr std::int64_t kOperationsPerThread = 1 << 21;
  const std::int64_t grain =
      kOperationsPerThread / (operations_per_item > 0 ? operations_per_item : 1) + 1;
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) work(item);
  });
}

// The same for work that calls operators: another device than the CPU takes them one after the other.
template <typename Work>
void for_each_item_on(c10::Device device, std::int64_t count, std::int64_t operations_per_item,
                      const Work& work) {
  if (device.is_cpu()) return for_each_item(count, operations_per_item, work);
  for (std::int64_t item = 0; item < count; ++item) work(item);
}

}  // namespace kvloupe::selection
