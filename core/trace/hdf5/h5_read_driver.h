// The file driver by which HDF5 reads. The library's own takes a file that is opened again for the one
// that is open already, with what it remembers of it: a trace that has grown meanwhile would look as
// before.
#pragma once

#include "core/trace/hdf5/hdf5.h"

namespace kvloupe::trace::h5 {

// Makes files that are opened with these access properties be read each for itself.
void read_apart(const Handle& access);

}  // namespace kvloupe::trace::h5
