// Half of the changes to an HDF5 file hit its structures: bytes at random are mostly tensor data.
#include "tests/trace/hdf5_structure.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  using namespace kvloupe::trace::testing;
  std::mt19937_64 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string file(reinterpret_cast<const char*>(data), size);
  try {
    const Damage damage = damage_structure(file, find_structure(file), random);
    std::copy(damage.bytes.begin(), damage.bytes.end(), data);
    return size;
  } catch (const std::out_of_range&) {
    return LLVMFuzzerMutate(data, size, most);  // no longer an HDF5 file
  }
}
