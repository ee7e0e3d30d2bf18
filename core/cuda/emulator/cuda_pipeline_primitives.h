// Asynchronous copies into shared memory, for the emulator; found in place of the toolkit's header of
// this name.
#pragma once

#include "core/cuda/emulator/emulator.h"

#include <cstddef>

// NOLINTBEGIN: the names are CUDA's.
inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  kvloupe::cuda::emulator::copy_async(to, from, bytes);
}
inline void __pipeline_commit() { kvloupe::cuda::emulator::commit_copies(); }
inline void __pipeline_wait_prior(std::size_t groups_left) {
  kvloupe::cuda::emulator::wait_for_copies(groups_left);
}
// NOLINTEND
