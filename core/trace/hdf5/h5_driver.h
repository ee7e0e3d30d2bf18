// The file driver by which HDF5 writes into a DiskFile. Two things that the library's own driver
// leaves open are settled here. A write that fails is DiskFile's secret: the library, which cannot
// close what an error came across (and then ends the program at its exit), goes on as if on a sound
// disk, and whoever called it asks the file. And the file is never shorter than its superblock says,
// wherever a kill falls.
#pragma once

#include "core/base/error.h"
#include "core/trace/hdf5/disk_file.h"
#include "core/trace/hdf5/hdf5.h"

#include <H5FDdevelop.h>

#include <filesystem>
#include <string>

namespace kvloupe::trace::h5 {

// What drivers have in common; the name, its number and the functions are each driver's own.
H5FD_class_t nameless_driver();

// File access properties; closing the file closes all that is open in it. `file` must outlive it.
Handle access_to(DiskFile& file);
// The file's old content is dropped.
Handle create_file(DiskFile& file, const Handle& access);
Handle open_file_for_writing(DiskFile& file, const Handle& access);
// Closes the file and brings it to the disk. Throws Defect when not all of it got there.
void close_written(Handle& file, DiskFile& disk);

// Runs write(), which makes a whole file; what HDF5 or the system could not do becomes Error{Input}
// "cannot <action>".
template <typename Write>
auto written(const std::string& action, const Write& write) {
  const auto refuse = [&](const std::string& reason) {
    return input_error("cannot " + action, reason,
                       "check the free space and the permissions of its folder");
  };
  try {
    return write();
  } catch (const Defect& defect) {
    throw refuse(defect.what());
  } catch (const std::filesystem::filesystem_error& error) {
    throw refuse(error.code().message());
  }
}

}  // namespace kvloupe::trace::h5
