// Variable-length texts of an HDF5 file, read with bounds checks of our own. The library follows
// the references that a file holds to such texts without checking them, and a damaged one ends the
// program; so the references are taken from it as they are and resolved here.
#pragma once

#include "core/trace/hdf5/hdf5.h"

#include <string>
#include <vector>

namespace kvloupe::trace::h5 {

// Longer texts are no attribute of a trace.
constexpr std::size_t kMaxTextBytes = 1 << 20;

// Where a text stands: `length` bytes in object `index` of the heap collection at `address`.
struct HeapReference {
  std::uint32_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t index = 0;
};

// The memory type in which H5Aread and H5Dread hand over a variable-length text as its raw
// reference of kRawReferenceBytes, which parse_references() takes apart.
hid_t raw_reference_type();
constexpr std::size_t kRawReferenceBytes = 16;
std::vector<HeapReference> parse_references(const std::vector<std::uint8_t>& raw);

// Throws Defect when the reference leads nowhere. `object` is anything in the file.
std::vector<std::string> read_heap_texts(hid_t object, const std::vector<HeapReference>& references,
                                         const std::string& what);

}  // namespace kvloupe::trace::h5
