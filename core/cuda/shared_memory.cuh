// The dynamic shared memory of a block, as one object. In one place, since `extern __shared__` is the
// one declaration of CUDA that no other compiler reads.
#pragma once

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
