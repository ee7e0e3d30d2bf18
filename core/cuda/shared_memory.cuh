// The dynamic shared memory of a block, as one object, and how many blocks have room. In one place,
// since `extern __shared__` is the one declaration of CUDA that no other compiler reads.
#pragma once

#include <algorithm>

namespace kvloupe::cuda {

// So many blocks have room in the shared memory of the smallest of our targets (sm_80: 164 KiB, 1 KiB of
// it the system's for each). More than four are of no use.
template <typename Memory>
inline constexpr int kBlocksOf = std::min<int>((164 << 10) / (sizeof(Memory) + 1024), 4);

}  // namespace kvloupe::cuda

#ifdef __CUDACC__

namespace kvloupe::cuda {

template <typename Memory>
__device__ Memory& block_memory() {
  extern __shared__ float4 memory_of_the_block[];
  return *reinterpret_cast<Memory*>(memory_of_the_block);
}

}  // namespace kvloupe::cuda

#else
#include "core/cuda/emulator/emulator.h"

namespace kvloupe::cuda {

template <typename Memory>
Memory& block_memory() {
  return *static_cast<Memory*>(emulator::shared_memory(sizeof(Memory)));
}

}  // namespace kvloupe::cuda

#endif
