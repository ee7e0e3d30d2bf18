// Where a trace grows while it is recorded: T.h5.part, which takes the name T.h5 at the end. It
// belongs to the process that holds its lock (flock), and where a file system has no locks, to the
// one whose file stands under the name.
#pragma once

#include "core/base/output_file.h"
#include "core/trace/hdf5/disk_file.h"

#include <filesystem>
#include <vector>

namespace kvloupe::trace {

std::filesystem::path part_path(const std::filesystem::path& trace_path);

// The trace and what belongs to it: what it grows in, and its sidecar of runs.
std::vector<std::filesystem::path> files_of_trace(const std::filesystem::path& trace_path);

// Asks of the trace's place all that a capture needs, early enough for a model not to be loaded in
// vain. Throws Error: as check_output_file(), another capture writes there, or one that was cut
// short left its chunks and they may not be overwritten.
void check_trace_file(const std::filesystem::path& trace_path, const InputFiles& inputs,
                      bool force);

// Of these, `trace_path` is no link: output_target() was asked.
// The trace's .part, empty and ours. Throws as check_trace_file().
DiskFile begin_part_file(const std::filesystem::path& trace_path, bool force);

// The .part that a capture left, locked: as it is. Throws Error{Input} where there is none, another
// capture writes it, or the trace's own place may not be written to.
DiskFile open_left_part(const std::filesystem::path& trace_path, const InputFiles& inputs,
                        bool force);
// An empty file beside it, which replaces it by become_part().
DiskFile begin_resumed_part(const std::filesystem::path& trace_path);
void become_part(DiskFile& resumed, const std::filesystem::path& trace_path);

// Gives the file, which must be closed in HDF5, the trace's name, once it is proved to be the one
// that we wrote, whole, and on the disk. Throws Error{Input}; the file stays a .part then.
void publish_part_file(DiskFile& part, const std::filesystem::path& trace_path, bool overwrite);

// Removes it where it is still ours.
void remove_part_file(const DiskFile& part);

}  // namespace kvloupe::trace
