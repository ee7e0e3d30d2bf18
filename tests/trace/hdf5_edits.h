// What HDF5 alone does to a file behind the writers' backs.
#pragma once

#include "core/trace/hdf5/hdf5.h"

#include <vector>

namespace kvloupe::trace::testing {

inline void drop(hid_t file, const char* path) {
  h5::checked_status(H5Ldelete(file, path, H5P_DEFAULT), "drop");
}

// Replaces a dataset by one that claims this shape and holds nothing.
inline void claim(hid_t file, const char* path, hid_t type, const std::vector<hsize_t>& dims) {
  drop(file, path);
  const int rank = static_cast<int>(dims.size());
  const h5::Handle space = h5::checked(H5Screate_simple(rank, dims.data(), nullptr), "space");
  const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
  const std::vector<hsize_t> piece(dims.size(), 1);
  H5Pset_chunk(plist.get(), rank, piece.data());
  h5::checked(H5Dcreate2(file, path, type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT),
              "claim");
}

}  // namespace kvloupe::trace::testing
