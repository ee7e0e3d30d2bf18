// The sidecar "T.h5.runs.h5": runs added to a finished trace, which itself is never changed.
#pragma once

#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::trace {

std::filesystem::path sidecar_path(const std::filesystem::path& trace_path);
// The number of the sidecar's first run: the trace's own come before it.
int first_sidecar_id(const TraceInfo& info);

// Opens the sidecar and adds its runs to the trace's. An empty handle when there is none, or none
// that belongs to this trace (then with a warning).
h5::Handle open_sidecar(const std::filesystem::path& trace_path, LoadedTrace& trace);

}  // namespace kvloupe::trace
