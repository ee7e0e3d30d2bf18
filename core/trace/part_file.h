// Where a trace grows while it is recorded: T.h5.part, which takes the name T.h5 at the end.
#pragma once

#include "core/base/output_file.h"

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

}  // namespace kvloupe::trace
